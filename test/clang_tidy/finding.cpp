// What clang_tidy_test.sh expects to be told of: half a thing is none.
double half(int things);
double half(int things) { return things / 2; }
