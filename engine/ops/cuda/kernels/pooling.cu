// Max pooling of `large` NHWC images (height, width) over size x size windows that do not overlap, to `small` ones
// (rows, columns), or the way back of its gradient. `pack` outputs of an image a thread, whose positions make a byte:
// four for windows of 2x2, one otherwise.
KERNEL max_pool(Int halves, Int threads, void* large_at, void* small_at, Byte* positions, Int backward,
                Int pack, Int size, Int height, Int width, Int channels, Int rows, Int columns) {
    THREAD(threads)
    Array large(large_at, halves, 1), small(small_at, halves, 2);
    unsigned depth = channels, per_image = rows * columns * depth, bytes = (per_image + pack - 1) / pack, packed = 0;
    Int image = thread / bytes;
    for (unsigned k = 0, i = thread % bytes * pack; k < pack && i < per_image; k++, i++) {
        Int y = image * height + i / depth / (unsigned)columns * size, x = i / depth % (unsigned)columns * size;
        Int corner = (y * width + x) * depth + i % depth;
        float largest = backward ? small[image * per_image + i] : large[corner];
        int which = backward ? positions[thread] >> 2 * k & (pack > 1 ? 3 : 255) : 0;
        for (int place = 0, row = 0; row < size; row++)
            for (Int at = corner + row * width * depth, end = at + size * depth; at < end; at += depth, place++) {
                float value = backward ? 0 : large[at];
                if (backward) large.set(at, place == which ? largest : 0);
                else if (value > largest) largest = value, which = place;
                else if (value != value) largest = value;
            }
        if (!backward) small.set(image * per_image + i, largest);
        packed |= which << 2 * k;
    }
    if (positions && !backward) positions[thread] = packed;
}

// out = the means of NHWC images over their positions, one of `size` a thread.
KERNEL means(Int halves, Int size, Int positions, Int channels, In x_at, void* out) {
    THREAD(size)
    Array x(x_at, halves, 3);
    float sum = 0;
    for (Int k = 0, at = thread / channels * positions * channels + thread % channels; k < positions; k++)
        sum += x[at + k * channels];
    Array(out, halves, 4).set(thread, sum / positions);
}
