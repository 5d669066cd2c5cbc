// Batch norm over (rows, channels). Sums over the rows are taken in two stages of a fixed order: each thread adds some
// rows in float32, all else is float64.

// First stage, `width` (a power of two, at most 32) channels a block; partial: (2, channels, blocks).
// With a gradient: the sums of g and g (x - mean), g being the gradient before the ReLU, which is left in `grad`.
// Else those of x and x^2, taken as deviations from the first row that a thread sees, so that squares do not cancel.
KERNEL row_sums(Int halves, Int rows, Int channels, Int width, double* partial, In x_at, Floats mean, Floats inv_std,
                Floats gamma, Floats beta, void* grad_at, Byte* mask, Int relu) {
    __shared__ double held[2][BLOCK];
    Array x(x_at, halves, 4), grad(grad_at, halves, 9);
    Int c = blockIdx.y * width + threadIdx.x % width, lanes = BLOCK / width;
    Int row = c < channels ? blockIdx.x * lanes + threadIdx.x / width : rows;
    float slope = relu && row < rows ? gamma[c] * inv_std[c] : 0, sum = 0, products = 0, count = 0;
    float centre = row >= rows ? 0 : grad_at ? mean[c] : x[row * channels + c];
    for (; row < rows; row += gridDim.x * lanes, count++) {
        Int i = row * channels + c;
        float value = x[i], g = grad_at ? grad[i] : value - centre;
        if (relu) {
            if (!(mask ? mask[i / 8] >> (7 - i % 8) & 1 : fmaf(value, slope, fmaf(-centre, slope, beta[c])) > 0)) g = 0;
            grad.set(i, g);
        }
        sum += g, products += g * (value - centre);
    }
    double back = grad_at ? 0 : centre;
    fold(held, sum + count * back, products + 2 * back * sum + count * back * back, width);
    for (int s = 0; s < 2 && threadIdx.x < width && c < channels; s++)
        partial[(s * channels + c) * gridDim.x + blockIdx.x] = held[s][threadIdx.x];
}

// First stage for the squares of all elements, which are finite in float64 exactly if the elements are.
KERNEL square_sums(Int halves, Int size, double* partial, In x_at) {
    __shared__ double held[2][BLOCK];
    Array x(x_at, halves, 2);
    double sum = 0;
    for (Int i = FIRST; i < size; i += gridDim.x * (Int)BLOCK) sum += (double)x[i] * x[i];
    fold(held, sum, 0, 1);
    if (threadIdx.x < 2) partial[threadIdx.x * gridDim.x + blockIdx.x] = held[threadIdx.x][0];
}

// Second stage, one block a channel. Where they are asked for: total and beta_grad += the first sum; mean and variance
// of x; gamma_grad += the sum of g h, and the `slopes` with which `affine` makes the gradient by x out of x and g:
// gamma inv_std (g - mean(g) - h mean(g h)).
KERNEL end_sums(Int halves, Int rows, Int chunks, const double* partial, double* total, float* beta_grad, float* mean,
                float* variance, float* gamma_grad, Floats inv_std, Floats gamma, float* slopes) {
    __shared__ double held[2][BLOCK];
    double sums[2] = {0, 0};
    Int c = blockIdx.x, channels = gridDim.x;
    for (Int i = threadIdx.x; i < 2 * chunks; i += BLOCK)
        sums[i >= chunks] += partial[(i / chunks * channels + c) * chunks + i % chunks];
    fold(held, sums[0], sums[1], 1);
    if (threadIdx.x) return;
    double first = held[0][0], second = held[1][0], centre = first / rows, spread = second / rows - centre * centre;
    if (total) *total += first;
    if (variance) mean[c] = centre, variance[c] = spread < 0 ? 0 : spread;
    if (beta_grad) beta_grad[c] += (float)first;
    if (!slopes) return;
    gamma_grad[c] += (float)(second *= inv_std[c]);
    double slope = gamma[c] * inv_std[c], by_x = inv_std[c] * second / rows;
    slopes[c] = -slope * by_x, slopes[channels + c] = slope;
    slopes[2 * channels + c] = slope * (by_x * mean[c] - centre);
}

KERNEL enter_statistics(Int halves, Int channels, Floats mean, float* variance, float* pending_mean,
                        float* pending_variance, double momentum, double share, double epsilon) {
    THREAD(channels)
    float kept = 1 - momentum, found = variance[thread];
    pending_mean[thread] = pending_mean[thread] * kept + mean[thread] * (float)momentum;
    pending_variance[thread] = pending_variance[thread] * kept + found * (float)share;
    variance[thread] = 1 / sqrtf(found + (float)epsilon);
}

// The slopes with which `affine` computes gamma (x - mean) inv_std + beta + y.
KERNEL norm_slopes(Int halves, Int channels, Floats mean, Floats inv_std, Floats gamma, Floats beta, float* slopes) {
    THREAD(channels)
    float slope = slopes[thread] = gamma[thread] * inv_std[thread];
    slopes[channels + thread] = 1, slopes[2 * channels + thread] = fmaf(-mean[thread], slope, beta[thread]);
}
