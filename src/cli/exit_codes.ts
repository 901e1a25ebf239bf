/** Exit codes of all commands, documented in docs/cli.md. */
export const EXIT = {
  ok: 0,
  /** The run, or the hub, failed. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The configuration is wrong, or its port is in use. */
  configuration: 3,
  /** The run stopped at its last allowed step, or its budget was used up. */
  maxSteps: 4,
  /** The run stopped since its conversation filled what its model can read. */
  tokenLimit: 5,
  /** The hub ended, and usage rows that Postgres did not take wait in its journal, or are lost. */
  usageLeft: 6,
  /** Interrupted by Ctrl-C. */
  interrupted: 130,
  /** The reader of its output went away, as of a program that SIGPIPE has ended. */
  readerGone: 141,
} as const;
