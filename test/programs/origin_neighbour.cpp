extern "C" int neighbour_answer() { return 42; }
