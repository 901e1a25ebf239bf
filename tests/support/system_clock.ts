/** Real time, for tests that talk to real processes. */
export { systemClock } from "../../src/cli/system_clock.ts";
