// Passes over flat memory, eight elements a thread.

// out = a x + b y [+ c], with `slopes` a, b and c of each channel. `relu` 1: then max(., 0), with its bits in `mask`;
// 2: 0 where the bit is not set.
KERNEL affine(Int halves, Int size, Int channels, In x, In y, Floats slopes, void* out, Byte* mask, Int relu, double a,
              double b) {
    SPAN(size)
    float v[8], others[8] = {}, by_channel[3][8];
    unsigned bits = relu == 2 ? mask[thread] : 0, channel = first % channels;
    Array(x, halves, 2).load(first, count, v);
    if (y) Array(y, halves, 3).load(first, count, others);
    for (int i = 0; i < 3; i++)
        if (!slopes) EIGHT by_channel[i][k] = i == 0 ? a : i == 1 ? b : 0;
        else if (channels % 8 == 0) Array(slopes + i * channels, 0, 0).load(channel, 8, by_channel[i]);
        else EIGHT by_channel[i][k] = slopes[i * channels + (channel + k) % channels];
    EIGHT {
        v[k] = fmaf(v[k], by_channel[0][k], fmaf(others[k], by_channel[1][k], by_channel[2][k]));
        if (relu < 2) bits |= (k < count && v[k] > 0) << (7 - k);
        if (relu == 2 ? !(bits >> (7 - k) & 1) : relu && v[k] < 0) v[k] = 0;
    }
    Array(out, halves, 5).store(first, count, v);
    if (mask && relu < 2) mask[thread] = bits;
}

// NumPy's stream of float32 draws: a block of Philox4x64-10 (Salmon et al. 2011) has four words, each half of them a
// draw of its top 24 bits, the low half first.
KERNEL dropout(Int halves, Int size, In x, void* out, const Int* place, double rate, Int seed, Int layer) {
    SPAN(size)
    unsigned long long c[4] = {thread + 1ull, 0, place[1] + 0ull, place[0] + 0ull};  // step and epoch
    for (unsigned long long round = 0, by0 = 0xD2E7470EE14C6C93, by2 = 0xCA5A826395121157; round < 10; round++) {
        unsigned long long c0 = c[0], c2 = c[2];
        c[0] = __umul64hi(by2, c2) ^ c[1] ^ (seed + round * 0x9E3779B97F4A7C15), c[1] = by2 * c2;
        c[2] = __umul64hi(by0, c0) ^ c[3] ^ (layer + round * 0xBB67AE8584CAA73B), c[3] = by0 * c0;
    }
    float v[8], factor = (float)(1 / (1 - rate));
    Array(x, halves, 1).load(first, count, v);
    EIGHT v[k] = (unsigned)(c[k / 2] >> 32 * (k % 2)) / 256 / 16777216.0f >= (float)rate ? v[k] * factor : 0;
    Array(out, halves, 2).store(first, count, v);
}
