"""Which way to divide a 70B transformer over 128 GPUs is the fastest of those that fit? Optuna searches."""

import optuna
import phantora

MODEL = phantora.TransformerShape(layers=80, hidden=8192, heads=64, mlp=28672)
BATCH = 64
simulation = phantora.Simulation("h200:16x8")


def step_time(trial: optuna.Trial) -> float:
    tensor = trial.suggest_categorical("tensor", [1, 2, 4, 8])
    pipeline = trial.suggest_categorical("pipeline", [1, 2, 4, 8])
    data = simulation.cluster.gpu_count // (tensor * pipeline)
    if BATCH % data:
        raise optuna.TrialPruned("the batch cannot be divided so")
    way = phantora.Parallelism(tensor=tensor, pipeline=pipeline, data=data, batch=BATCH)
    report = simulation.run(phantora.training_steps(MODEL, way))
    trial.set_user_attr("memory", report.peak_memory)
    if not report.fits:
        raise optuna.TrialPruned("it does not fit")
    return report.step


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.enqueue_trial({"tensor": 8, "pipeline": 1})  # what one would try first
    study.optimize(step_time, n_trials=12)
    for trial in study.trials:
        memory = trial.user_attrs.get("memory")
        time = f"{trial.value:.3f} s" if trial.value else "pruned"
        print(trial.params, time, f"{memory / 2**30:.1f} GiB" if memory else "")
    print("best:", study.best_params)
