// Adam on float32 parameters.
KERNEL adam(Int halves, Int size, float* value, Floats gradient, float* mean, float* square, double kept, double decay,
            double beta1, double beta2, double unbias, double epsilon, double step) {
    THREAD(size)
    float weight = (float)kept * value[thread], g = gradient[thread] + (float)decay * weight;
    float m = mean[thread] = (float)beta1 * mean[thread] + (float)(1 - beta1) * g;
    float s = square[thread] = (float)beta2 * square[thread] + (float)(1 - beta2) * (g * g);
    value[thread] = weight - (float)step * m / (sqrtf(s * (float)unbias) + (float)epsilon);
}
