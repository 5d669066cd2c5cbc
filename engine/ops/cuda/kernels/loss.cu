// One block; totals += (sum of losses, right answers). targets: class numbers or, with `soft`, rows of probabilities.
KERNEL cross_entropy(Int halves, Int samples, Int classes, In logits_at, In targets, void* grad, double* totals,
                     Int soft, double smoothing, double factor) {
    __shared__ double held[2][BLOCK];
    Array logits(logits_at, halves, 2);
    double losses = 0, answers = 0;
    for (Int n = threadIdx.x; n < samples; n += BLOCK) {
        Int row = n * classes, best = 0, right = soft ? 0 : ((const int*)targets)[n];
        Floats wanted = (Floats)targets + row;
        for (Int k = 1; k < classes; k++) {
            if (logits[row + k] > logits[row + best]) best = k;
            if (soft && wanted[k] > wanted[right]) right = k;
        }
        float top = logits[row + best], sum = 0, least = smoothing / classes, rest = 1 - smoothing;
        for (Int k = 0; k < classes; k++) sum += expf(logits[row + k] - top);
        for (Int k = 0; k < classes; k++) {
            float z = logits[row + k] - top, q = rest * (soft ? wanted[k] : k == right) + least;
            losses += q * (logf(sum) - z);
            if (grad) Array(grad, halves, 4).set(row + k, (expf(z) / sum - q) * (float)factor);
        }
        answers += best == right;
    }
    fold(held, losses, answers, 1);
    if (threadIdx.x < 2) totals[threadIdx.x] += held[threadIdx.x][0];
}
