// State of a sequence for choosing its tokens: counts [places, vocabulary] has how often each token
// was given, and this bit if the prompt has it.
#pragma once

constexpr int kInPrompt = 1 << 30;
