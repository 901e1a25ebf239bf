import { type Static, Type } from "@sinclair/typebox";
import { Duration } from "./duration_schema.ts";

const closed = { additionalProperties: false } as const;

const Variables = (description: string) =>
  Type.Record(Type.String({ pattern: "^[^\\s=]{1,200}$" }), Type.String({ wanted: "a text" }), {
    ...closed,
    secret: true,
    wanted: "a name without spaces",
    description,
  });

const Patterns = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1 }), { uniqueItems: true, description }));

/** What running a tool twice does, as `core/tool.ts` has it. */
const Effect = Type.Union([
  Type.Literal("pure"),
  Type.Literal("idempotent"),
  Type.Literal("effect"),
]);

/** The hub as an OAuth client of a server. */
export const OAuth = Type.Object({
  clientId: Type.Optional(Type.String({
    minLength: 1,
    description: "What the hub is registered as there. Default: it registers itself.",
  })),
  clientSecret: Type.Optional(Type.String({
    minLength: 1,
    secret: true,
    description: "The secret of that registration.",
  })),
  scopes: Type.Optional(Type.Array(Type.String({ pattern: "^[\\x21\\x23-\\x5b\\x5d-\\x7e]+$" }), {
    uniqueItems: true,
    description: "What tokens are for. Default: what the server asks for.",
  })),
  privateOrigins: Type.Optional(Type.Array(
    Type.String({
      pattern: "^https?://[^/?#@\\s*]+(?::\\*)?$",
      wanted: "an origin such as http://localhost:8080, its port may be *",
    }),
    {
      uniqueItems: true,
      maxItems: 20,
      description:
        "Origins on this machine or in private networks that the server may name for its authorization, beside its own. Default: none.",
    },
  )),
}, closed);

/** What places begin with that a server may be told of, as a pattern and in words. */
export const ROOT_PATTERN = "^(/|file:///)[^\\x00-\\x1f\\x7f]{0,4096}$";
export const ROOT_WANTED = "an absolute path, or a file:/// address";
/** Most places of one server. */
export const MAX_ROOTS = 100;

const RootUri = Type.String({
  description: "An absolute path, or a file:/// address.",
  pattern: ROOT_PATTERN,
  wanted: ROOT_WANTED,
});

/** Asking the hub's models. */
const Sampling = Type.Object({
  model: Type.Optional(Type.String({
    minLength: 1,
    description: "Public name of the model that is asked. Default: the default model.",
  })),
  maxTokens: Type.Integer({
    default: 4096,
    minimum: 1,
    maximum: 1_000_000,
    description: "Most tokens of one answer.",
  }),
  maxCalls: Type.Integer({
    default: 10,
    minimum: 1,
    maximum: 1000,
    description: "Most answers for one call of a tool.",
  }),
  approval: Type.Union([Type.Literal("auto"), Type.Literal("ask")], {
    default: "auto",
    description: "Whether the caller is asked each time before a model is called.",
  }),
}, closed);

/** A place that a server may be told of. */
const Root = Type.Union([
  RootUri,
  Type.Object({
    uri: RootUri,
    name: Type.Optional(Type.String({
      minLength: 1,
      maxLength: 200,
      description: "What the place is called.",
    })),
  }, closed),
], { wanted: "an absolute path, a file:/// address, or an object with uri and name" });

/** An MCP server as Claude Desktop and others write it, and what the hub adds. `${VAR}` is resolved when it is needed. */
export const McpServer = Type.Object({
  command: Type.Optional(Type.Union([
    Type.String({ minLength: 1, wanted: "the name or path of a program" }),
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
  ], {
    wanted: "a program, or a list of a program and its arguments",
    description: "Program of a server that is started here; or a list of it and its arguments.",
  })),
  args: Type.Optional(Type.Array(Type.String(), { description: "Arguments of the program." })),
  env: Type.Optional(Variables(
    "Variables of the program, which gets PATH and HOME besides and nothing else. Empty ones are left out.",
  )),
  environment: Type.Optional(Variables("The same as `env`, as some other files call it.")),
  cwd: Type.Optional(Type.String({
    minLength: 1,
    description: "Folder that the program runs in, relative to the configuration file.",
  })),
  sandbox: Type.Union([Type.Literal("auto"), Type.Literal("required"), Type.Literal("off")], {
    default: "auto",
    description:
      "Whether the program runs in bubblewrap, where it sees all files and no process of the hub: `auto` where that works.",
  }),
  url: Type.Optional(Type.String({
    minLength: 1,
    description: "Address of a server that runs elsewhere: http, https, ws or wss.",
  })),
  headers: Type.Optional(Variables(
    "Headers of every request to the server. Empty ones are left out.",
  )),
  type: Type.Optional(Type.Union(
    ["local", "remote", "stdio", "http", "streamable-http", "streamableHttp", "sse", "ws"]
      .map((name) => Type.Literal(name)),
    { description: "How it is spoken to, as other files call it." },
  )),
  transport: Type.Optional(Type.Union(
    [Type.Literal("stdio"), Type.Literal("http"), Type.Literal("sse"), Type.Literal("ws")],
    {
      description:
        "How it is spoken to. Default: by `type`, `command` and `url`; HTTP falls back to SSE where the server knows no other.",
    },
  )),
  protocol: Type.Optional(Type.Union([
    Type.Literal("auto"),
    Type.Literal("legacy"),
    Type.Literal("2026-07-28"),
  ], {
    description:
      "Revision that is spoken: `legacy` is 2025-11-25 and before. Default: `legacy` for programs, else `auto`.",
  })),
  enabled: Type.Boolean({ default: true, description: "Whether the server is used." }),
  oauth: Type.Optional(Type.Union([Type.Literal(false), OAuth], {
    wanted: "false, or an object",
    description:
      "How the hub gets tokens for a server over HTTP that wants them and has no Authorization among its headers; false asks for none.",
  })),
  prefix: Type.Optional(Type.Union([
    Type.Literal(false),
    Type.String({ pattern: "^[a-z0-9-]{1,20}$", wanted: "up to 20 small letters, digits and -" }),
  ], {
    wanted: "up to 20 small letters, digits and -, or false",
    description:
      "What the names of its tools begin with, before `__`; false: nothing. Default: its name in small letters.",
  })),
  tools: Type.Optional(Type.Object({
    allow: Patterns("Patterns over its own names of tools; only those that fit are offered."),
    deny: Patterns("Patterns over its own names of tools; those that fit are not offered."),
  }, { ...closed, description: "Which of its tools are offered." })),
  timeoutMs: Duration({
    default: 10_000,
    description: "Longest silence of a tool call; progress restarts it.",
  }),
  totalTimeoutMs: Duration({
    default: 300_000,
    description: "Longest duration of a tool call, whatever its progress.",
  }),
  connectTimeoutMs: Duration({
    default: 30_000,
    description: "Longest wait for a connection, the start of a program included.",
  }),
  trust: Type.Boolean({
    default: false,
    description:
      "Whether what the server says of its tools is believed: that they only read, or may be repeated.",
  }),
  effect: Type.Optional(Type.Record(Type.String({ pattern: "^.{1,200}$" }), Effect, {
    ...closed,
    wanted: "a pattern over its own names of tools",
    description:
      "What running a tool twice does, by pattern over its own names; the first that fits counts. Default: `effect`, for trusted servers what they say.",
  })),
  trace: Type.Boolean({
    default: false,
    description:
      "Whether what goes between the hub and the server is kept for `loophub mcp logs`, in memory.",
  }),
  sequential: Type.Boolean({
    default: false,
    description: "Whether its tools run one at a time.",
  }),
  sampling: Type.Optional(Type.Union([Type.Literal(false), Sampling], {
    wanted: "false, or an object",
    description:
      "How the server may ask the hub's models in the middle of a call; false: it is told that it cannot. Default: clients of /mcp that called are asked, where they take it.",
  })),
  roots: Type.Optional(Type.Array(Root, {
    maxItems: MAX_ROOTS,
    description: "Places that the server is told to work in, when it asks. Default: it cannot ask.",
  })),
}, { ...closed, default: {}, description: "An MCP server whose tools agents may use." });
export type McpServer = Static<typeof McpServer>;

/** MCP servers by name. */
export const McpServers = Type.Record(
  Type.String({ pattern: "^[^\\x00-\\x1f\\x7f]{1,64}$" }),
  McpServer,
  {
    ...closed,
    default: {},
    wanted: "a name of up to 64 characters",
    description: "MCP servers by name, as Claude Desktop and others write them.",
  },
);
