__device__ Int mirrored(Int place, Int side) { return side - 1 - abs(side - 1 - abs(place)); }

// A batch of images, from place `first` of an epoch's `order` on, moved, mirrored and with a hole as drawn; each byte
// is looked up in `table` (channels, 257), whose last column is for the holes. And the batch's targets, word by word.
KERNEL pick(Int halves, Int size, const Byte* images, const int* answers, const Int* order, const short* shift,
            const Byte* flip, const short* hole, Floats table, void* out, int* targets, Int first, Int height, Int width,
            Int channels, Int cutout) {
    THREAD(size)
    Int c = thread % channels, x = thread / channels % width, y = thread / channels / width % height;
    Int n = thread / channels / width / height, place = first + n, sample = order[place];
    if (!(c || x || y)) targets[n] = answers[sample];
    Int down = y - hole[2 * place] + cutout / 2, right = x - hole[2 * place + 1] + cutout / 2;
    Int row = mirrored(y + shift[2 * place], height);
    Int column = mirrored((flip[place] ? width - 1 - x : x) + shift[2 * place + 1], width);
    bool cut = down >= 0 && down < cutout && right >= 0 && right < cutout;
    Int value = cut ? 256 : images[((sample * height + row) * width + column) * channels + c];
    Array(out, halves, 8).set(thread, table[c * 257 + value]);
}
