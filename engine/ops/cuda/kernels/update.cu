// As many tensors as the arguments of a kernel have room for.
struct Tensors { struct { float *value, *gradient, *mean, *square; Int size; double decay; } tensor[80]; };

// Adam on float32 parameters; blockIdx.y is the number of the tensor.
KERNEL adam(Int halves, const Tensors tensors, double lr, double beta1, double beta2, double epsilon, double first,
            double second, Int decoupled) {
    const auto& t = tensors.tensor[blockIdx.y];
    float kept = decoupled ? 1 - lr * t.decay : 1, decay = decoupled ? 0 : t.decay;
    for (Int i = FIRST; i < t.size; i += gridDim.x * (Int)BLOCK) {
        float g = t.gradient[i] + decay * t.value[i];
        float mean = t.mean[i] = (float)beta1 * t.mean[i] + (float)(1 - beta1) * g;
        float square = t.square[i] = (float)beta2 * t.square[i] + (float)(1 - beta2) * (g * g);
        float step = mean / (sqrtf(square * (float)(1 / second)) + (float)epsilon);
        t.value[i] = kept * t.value[i] - (float)(lr / first) * step;
    }
}
