// columns[(image, row, column), (tap_y, tap_x, channel)] of NHWC images, for `rows` rows of the images from `image` on:
// what the kernel sees that moves by `stride` over the images with `dilation` - 1 zeros between their pixels, from
// (first_y, first_x) on, 0 outside; `width` (8 or 1) channels a thread.
KERNEL columns(Int halves, Int size, In source, void* out, Int width, Int image, Int height, Int row_size, Int channels,
               Int kernel, Int rows, Int row_length, Int stride, Int dilation, Int first_y, Int first_x) {
    THREAD(size / width)
    Int sizes[5] = {channels / width, kernel, kernel, row_length, rows}, places[5];
    unsigned rest = thread;
    for (int axis = 0; axis < 5; rest /= (unsigned)sizes[axis++]) places[axis] = rest % (unsigned)sizes[axis];
    int x = places[3] * stride + places[1] + first_x, y = places[4] * stride + places[2] + first_y, gap = dilation;
    bool inside = x >= 0 && y >= 0 && x % gap + y % gap == 0 && (x /= gap) < row_size && (y /= gap) < height;
    Int from = (((image + rest) * height + y) * row_size + x) * channels + places[0] * width;
    float v[8] = {};
    if (inside) Array(source, halves, 1).load(from, width, v);
    Array(out, halves, 2).store(thread * width, width, v);
}
