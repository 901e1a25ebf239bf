import { type Static, Type } from "@sinclair/typebox";
import { Duration } from "./duration_schema.ts";

const closed = { additionalProperties: false } as const;

/** Commands that agents may run. */
export const Shell = Type.Object({
  allow: Type.Array(Type.String({ pattern: "^\\S+( \\S+)*$" }), {
    default: [],
    uniqueItems: true,
    wanted: "commands, each with the first of its arguments or without",
    description:
      "Commands that may run, such as `git` or `git status`: what an entry names has to come first. Left out in full-control, all.",
  }),
  script: Type.Boolean({
    default: false,
    description: "Whether whole shell scripts may run too, which no list of commands can hold.",
  }),
  timeoutMs: Duration({
    minimum: 100,
    default: 30_000,
    description: "How long a command may take whose call says nothing.",
  }),
  maxTimeoutMs: Duration({
    minimum: 100,
    default: 600_000,
    description: "How long a command may take at most.",
  }),
  env: Type.Optional(Type.Record(
    Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_]*$" }),
    Type.String({ wanted: "a text" }),
    {
      ...closed,
      secret: true,
      wanted: "a name of letters, digits and _",
      description: "Variables of commands, which get PATH and HOME besides and nothing else.",
    },
  )),
  network: Type.Boolean({
    default: false,
    description: "Whether commands in a sandbox reach the network.",
  }),
  readOnly: Type.Array(Type.String({ minLength: 1, wanted: "a path" }), {
    default: [],
    uniqueItems: true,
    description:
      "Further paths that commands in a sandbox may read, such as tools that stand elsewhere; relative to the configuration file.",
  }),
  maxOutputBytes: Type.Integer({
    minimum: 1024,
    maximum: 64 * 1024 * 1024,
    default: 1024 * 1024,
    description:
      "What is kept of a command's stdout, and of its stderr; one that writes 64 times that is ended.",
  }),
  maxMemoryMb: Type.Integer({
    minimum: 0,
    maximum: 1024 * 1024,
    default: 4096,
    description: "Address space of each process in MiB; 0 is no limit.",
  }),
  maxProcesses: Type.Integer({
    minimum: 0,
    maximum: 100_000,
    default: 256,
    description: "Processes that a command may have at a time; 0 is no limit.",
  }),
  maxFileMb: Type.Integer({
    minimum: 0,
    maximum: 1024 * 1024,
    default: 1024,
    description: "Largest file that a command may write, in MiB; 0 is no limit.",
  }),
}, { ...closed, description: "Commands that agents may run. Left out, none." });
export type Shell = Static<typeof Shell>;

/** The folder that agents work in, and how far they reach. */
export const Workspace = Type.Object({
  dir: Type.String({
    minLength: 1,
    wanted: "the path of a folder",
    description: "Folder that agents work in, relative to the configuration file.",
  }),
  securityMode: Type.Union([Type.Literal("limited-control"), Type.Literal("full-control")], {
    default: "limited-control",
    description:
      "Whether operations reach nothing outside of the folder, or whatever the hub's user may.",
  }),
  sandbox: Type.Union([Type.Literal("auto"), Type.Literal("required"), Type.Literal("off")], {
    default: "auto",
    description:
      "Whether operations run in bubblewrap: where it works, or else the hub does not start, or never.",
  }),
  approval: Type.Union([
    Type.Literal("never"),
    Type.Literal("ask"),
    Type.Literal("session"),
    Type.Literal("always"),
  ], {
    default: "session",
    wanted: '"never", "ask", "session" or "always"',
    description:
      "Who is asked before operations change files or run commands: nobody; a person, who says how far the answer reaches; a person once a session; a person each time. An agent's approvals.rules count first.",
  }),
  maxFileBytes: Type.Integer({
    minimum: 1024,
    maximum: 1024 * 1024 * 1024,
    default: 10 * 1024 * 1024,
    description: "Largest file that is read whole or written.",
  }),
  shell: Type.Optional(Shell),
}, {
  ...closed,
  description: "The folder that agents work in. Left out, there are no operations on files.",
});
export type Workspace = Static<typeof Workspace>;
