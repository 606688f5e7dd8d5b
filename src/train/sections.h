// sections: what each module needs of a Config, as that module's own options. Pure. Torch-free.
#pragma once

#include "data/dataset.h"
#include "data/loader.h"
#include "model/gpt_shape.h"
#include "optim/adamw.h"
#include "optim/schedule.h"
#include "parallel/plan_options.h"
#include "train/config.h"

namespace shardproof {

// Under native reduction the pieces are those of the layout: one a rank.
GptShape shape_of(const Config& config);
AdamWConfig adamw_of(const Config& config);
ScheduleConfig schedule_of(const Config& config);
DatasetConfig dataset_of(const Config& config);
LoaderConfig loader_of(const Config& config);
PlanOptions plan_of(const Config& config);

// What a checkpoint says of them (checkpoint/manifest.h).
std::string packing_of(const Config& config);
Json parameter_groups_of(const Config& config);

}  // namespace shardproof
