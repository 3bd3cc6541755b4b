/* An embedder's program in C. */
#include <phantora.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  char* report = NULL;
  const phantora_status status = phantora_simulate_json(
      "{\"cluster\": \"h100:1x8\", \"transformer\": {\"layers\": 2, \"tensor\": 8}}", &report);
  if (status != PHANTORA_OK) {
    fprintf(stderr, "%s\n", phantora_last_error());
    return 1;
  }
  const int ran = strstr(report, "\"fits\":true") != NULL;
  phantora_free(report);
  return ran ? 0 : 1;
}
