import { type Static, Type } from "@sinclair/typebox";
import {
  DEFAULT_TOOL_TIMEOUT_MS,
  MAX_CALLS_PER_ANSWER,
  MAX_CONCURRENT_PER_KEY,
  MAX_OFFERED_TOOLS,
  MAX_PARALLEL_TOOLS,
  MAX_TOOL_RESULT_BYTES,
  MAX_TOOL_RESULT_LINES,
} from "../core/limits.ts";
import { Agent, PublicModel } from "./agent_schema.ts";
import { Cache } from "./cache_schema.ts";
import { Duration } from "./duration_schema.ts";
import { McpServers } from "./mcp_schema.ts";
import { Provider, Timeouts } from "./provider_schema.ts";
import { Server } from "./server_schema.ts";
import { Workspace } from "./workspace_schema.ts";

const closed = { additionalProperties: false } as const;

/** The Postgres that holds the truth. */
export const Database = Type.Object({
  url: Type.Optional(Type.String({
    minLength: 1,
    secret: true,
    wanted: "a postgres:// URL",
    description: "Postgres to use. Default: an embedded one that the hub starts and stops.",
  })),
  directUrl: Type.Optional(Type.String({
    minLength: 1,
    secret: true,
    wanted: "a postgres:// URL",
    description:
      "The same Postgres past any pooler, for LISTEN and migrations. Default: `database.url`.",
  })),
  dataDir: Type.Optional(Type.String({
    minLength: 1,
    description: "Folder of the embedded Postgres, relative to the configuration file.",
  })),
  usageDir: Type.Optional(Type.String({
    minLength: 1,
    description:
      "Folder of the journal of usage rows, relative to the configuration file. Default: `usage` in `database.dataDir`.",
  })),
  poolSize: Type.Integer({
    minimum: 1,
    maximum: 200,
    default: 4,
    description: "Connections for writes of requests; runs have two of their own.",
  }),
  readPoolSize: Type.Integer({
    minimum: 1,
    maximum: 200,
    default: 4,
    description: "Connections for reads.",
  }),
  statementTimeoutMs: Duration({
    minimum: 100,
    default: 5000,
    description: "Longest wait for one statement, the wait for a connection included.",
  }),
  prepare: Type.Boolean({
    default: true,
    description:
      "Whether statements are prepared; false behind a pooler that pools by transaction.",
  }),
  notify: Type.Boolean({
    default: true,
    description:
      "Whether replicas tell each other news through NOTIFY; false where the database has none, and all of them poll.",
  }),
  skipLocked: Type.Boolean({
    default: true,
    description:
      "Whether runs are claimed with SKIP LOCKED; with false, for databases that lack it or allow it within one tenant only, each run is claimed by compare-and-set.",
  }),
}, { ...closed, default: {}, description: "The Postgres that holds the truth." });

/** What the log says, and how. */
export const LogSettings = Type.Object({
  level: Type.Union([
    Type.Literal("debug"),
    Type.Literal("info"),
    Type.Literal("warn"),
    Type.Literal("error"),
  ], { default: "info", description: "Lowest level that is written." }),
  format: Type.Union([Type.Literal("auto"), Type.Literal("json"), Type.Literal("pretty")], {
    default: "auto",
    description:
      "JSON lines, or lines for people; auto takes those for people when stderr is a terminal.",
  }),
}, { ...closed, default: {}, description: "What the log says, and how." });

/** What traces tell. That there are any is the runtime's to say: `OTEL_DENO=true`. */
export const Tracing = Type.Object({
  bodies: Type.Boolean({
    default: false,
    description:
      "Whether spans carry what was asked and answered, and what tools got and gave: cut, and without known secrets.",
  }),
  propagate: Type.Boolean({
    default: false,
    description:
      "Whether providers are sent a traceparent, so that their own traces can be joined to the hub's.",
  }),
}, { ...closed, default: {}, description: "What OpenTelemetry traces tell, where there are any." });

/** Operations of the user. */
export const Operations = Type.Object({
  modules: Type.Array(Type.String({ minLength: 1, wanted: "the path of a module" }), {
    default: [],
    uniqueItems: true,
    description:
      "Modules, relative to the configuration file, whose default export is an operation or a list of them.",
  }),
}, { ...closed, default: {}, description: "Operations of your own, beside the built-in ones." });

/** Bounds on what keys and agents do. */
export const Limits = Type.Object({
  maxConcurrentPerKey: Type.Integer({
    minimum: 0,
    default: MAX_CONCURRENT_PER_KEY,
    description:
      "Requests of one key at the same time; more wait, and past that are answered 429. 0: no limit.",
  }),
  maxQueuedPerKey: Type.Optional(Type.Integer({
    minimum: 0,
    description:
      "Requests of one key that may wait for their turn. Default: twice `limits.maxConcurrentPerKey`.",
  })),
  assumedOutputTokens: Type.Integer({
    minimum: 1,
    maximum: 10_000_000,
    default: 4096,
    description:
      "Output tokens that are reserved for a call whose request and model set no limit, for keys with a budget or a token rate.",
  }),
  withoutDatabase: Type.Union([Type.Literal("refuse"), Type.Literal("serve")], {
    default: "refuse",
    description:
      "What becomes of calls of keys with budgets or rates while Postgres is away: refused with 503, or made and charged later.",
  }),
  privateNames: Type.Boolean({
    default: false,
    description:
      "Whether host names of the database's providers may lead to this machine and into private networks.",
  }),
  toolTimeoutMs: Duration({
    default: DEFAULT_TOOL_TIMEOUT_MS,
    description: "Longest duration of a tool call whose tool sets no deadline of its own.",
  }),
  toolResultBytes: Type.Integer({
    minimum: 16_384,
    maximum: 1_048_576,
    default: MAX_TOOL_RESULT_BYTES,
    description:
      "UTF-8 bytes that a model reads of a tool's result in runs; of a longer one the beginning and the end, the whole is kept.",
  }),
  toolResultLines: Type.Integer({
    minimum: 100,
    maximum: 50_000,
    default: MAX_TOOL_RESULT_LINES,
    description: "Lines that a model reads of a tool's result in runs.",
  }),
  maxParallelTools: Type.Integer({
    minimum: 1,
    maximum: 64,
    default: MAX_PARALLEL_TOOLS,
    description: "Tools of one step that run at the same time.",
  }),
  maxCallsPerAnswer: Type.Integer({
    minimum: 1,
    maximum: 1024,
    default: MAX_CALLS_PER_ANSWER,
    description:
      "Tool calls of one model answer that are taken; the model reads of each further one that it was refused.",
  }),
  maxOfferedTools: Type.Integer({
    minimum: 0,
    maximum: 128,
    default: MAX_OFFERED_TOOLS,
    description:
      "Tools of an agent above which its model is shown some, and one that finds others; 0 shows all.",
  }),
}, { ...closed, default: {}, description: "Bounds on what keys and agents do." });

/** How runs are owned and kept. */
export const Runs = Type.Object({
  leaseMs: Duration({
    minimum: 1000,
    default: 15_000,
    description: "How long a replica owns a run without a sign of life.",
  }),
  approvalTimeoutMs: Duration({
    minimum: 1000,
    default: 600_000,
    description:
      "How long a person is waited for who is asked whether a tool may run; then it may not.",
  }),
  questionTimeoutMs: Duration({
    minimum: 1000,
    default: 600_000,
    description:
      "How long a person is waited for who is asked what a tool wants to know in the middle of a call.",
  }),
  leaveAfterMs: Duration({
    minimum: 0,
    default: 1500,
    description:
      "Silence of a run after which a hub that got SIGTERM leaves it to another replica in mid-step.",
  }),
  retentionHours: Type.Integer({
    minimum: 24,
    maximum: 87_600,
    default: 168,
    description: "How long the event log of a finished run is kept, in hours.",
  }),
}, { ...closed, default: {}, description: "How runs are owned and kept." });

/** Names of providers; `agent/…` are agents as models. */
const PROVIDER_NAME = "^(?!agent$)[a-z0-9][a-z0-9_-]{0,31}$";

/** The whole configuration. Every setting has a default; `loophub.schema.json` is made from this. */
export const Config = Type.Object({
  $schema: Type.Optional(Type.String({
    description: "Where editors find the JSON Schema of this file; the hub ignores it.",
  })),
  server: Server,
  database: Database,
  log: LogSettings,
  tracing: Tracing,
  providers: Type.Record(Type.String({ pattern: PROVIDER_NAME }), Provider, {
    ...closed,
    default: {},
    wanted:
      "a name of up to 32 small letters, digits, - and _ that begins with a letter or a digit, and is not agent",
    description:
      "Upstreams by name. Left out, they are found by the environment; see docs/configuration.md.",
  }),
  models: Type.Record(Type.String({ pattern: "^(?!agent/)[!-~]{1,200}$" }), PublicModel, {
    ...closed,
    default: {},
    wanted: "a name of up to 200 visible ASCII characters that does not begin with agent/",
    description: "Public model names, each with its targets, or the model it is an alias of.",
  }),
  defaultModel: Type.Optional(Type.String({
    minLength: 1,
    wanted: "the name of a model",
    description:
      "Model of agents that name none. Default: the first of models, else of the first provider that lists or has one.",
  })),
  agents: Type.Record(Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$" }), Agent, {
    ...closed,
    default: {},
    wanted: "a name of up to 64 letters, digits, -, _ and . that begins with a letter or a digit",
    description: "Agents by name; one named default always exists.",
  }),
  operations: Operations,
  skills: Type.Optional(Type.Object({
    dir: Type.String({
      minLength: 1,
      wanted: "the path of a folder",
      description:
        "Folder of skills, each in a folder of its own; relative to the configuration file.",
    }),
  }, { ...closed, description: "Skills that agents have. Left out, those of their workspaces." })),
  workspace: Type.Optional(Workspace),
  mcpServers: McpServers,
  timeouts: Timeouts,
  limits: Limits,
  runs: Runs,
  cache: Cache,
}, {
  ...closed,
  title: "Configuration of Loophub",
  description: "Every setting of the hub; all of them are optional.",
});
export type Config = Static<typeof Config>;
