/** Bytes of a body that is the largest that the hub takes, less what stands around the hostile part. */
export const MOST_BYTES = 32 * 1024 * 1024 - 64 * 1024;

/** Many of the same, joined by commas. */
export function many(count: number, item: (at: number) => string): string {
  return Array.from({ length: count }, (_, at) => item(at)).join(",");
}

/** An object of so many members. */
export const objectOf = (members: number) => `{${many(members, (at) => `"k${at}":${at}`)}}`;

/** JSON strings of about so many bytes that are the most work for their size. */
export const TEXTS: Readonly<Record<string, (bytes: number) => string>> = {
  "plain text": (bytes) => `"${"x".repeat(bytes)}"`,
  "lines": (bytes) => `"${"The quick brown fox.\\n".repeat(bytes / 22)}"`,
  "escaped letters": (bytes) => `"${"\\u0041".repeat(bytes / 6)}"`,
  "escaped quotes": (bytes) => `"${'\\"'.repeat(bytes / 2)}"`,
  "lone halves of characters": (bytes) => `"${"\\ud800".repeat(bytes / 6)}"`,
  "NUL": (bytes) => `"${"\\u0000".repeat(bytes / 6)}"`,
  "wide text": (bytes) => `"${"漢".repeat(bytes / 3)}"`,
};

/** JSON values that are many small things. */
export const VALUES: Readonly<Record<string, string>> = {
  "names, as many as fit": `[${many(10, () => objectOf(19_900))}]`,
  "numbers, as many as fit": `[${many(900_000, (at) => `${at}`)}]`,
};

/** The same past a bound. */
export const TOO_MANY: Readonly<Record<string, string>> = {
  "one object of too many names": objectOf(20_001),
  "too many names": `[${many(11, () => objectOf(19_900))}]`,
  "too many numbers": `[${many(1_000_001, () => "0")}]`,
  "three million levels": "[".repeat(3_000_000) + "]".repeat(3_000_000),
};

const WORST: ReadonlySet<string> = new Set(["lines", "escaped quotes", "NUL"]);
const textsIn = (make: (text: string) => string) =>
  Object.entries(TEXTS).map(([name, text]) => ({ name, body: () => make(text(MOST_BYTES)) }));
/** Those that were the most work where a request is written again. */
const worstIn = (make: (text: string) => string) =>
  textsIn(make).filter(({ name }) => WORST.has(name));
const valuesIn = (make: (value: string) => string) => [
  ...Object.entries(VALUES).map(([name, value]) => ({ name, body: () => make(value) })),
  ...Object.entries(TOO_MANY).map(([name, value]) => ({
    name,
    body: () => make(value),
    status: 400,
  })),
];

/** A hostile request, and the status that it gets where that is not 200. */
export interface HostileRequest {
  name: string;
  body: () => string;
  status?: number;
  /** What stays above 50 ms, in milliseconds, and why. */
  upTo?: { ms: number; why: string };
}

/** A way in, and what comes in by it. */
export interface Door {
  name: string;
  path: string;
  headers?: Record<string, string>;
  requests: HostileRequest[];
}

const user = (content: string, more = "") =>
  `"messages":[{"role":"user","content":${content}}]${more}`;
const called = (args: string) =>
  `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"${args}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]`;

const CALLS: HostileRequest[] = [
  {
    name: "calls whose arguments nest",
    body: () => called(`{\\"a\\":${"[".repeat(500_000)}`),
    status: 400,
  },
  { name: "calls of many numbers", body: () => called(`{\\"a\\":[${"0,".repeat(90_000)}0]}`) },
  {
    name: "calls of too many numbers",
    body: () => called(`{\\"a\\":[${"0,".repeat(110_000)}0]}`),
    status: 400,
  },
  { name: "a call of 16 MB", body: () => called("x".repeat(16_000_000)), status: 400 },
];
const MESSAGES: HostileRequest[] = [
  {
    name: "many messages",
    body: () => `"messages":[${many(20_000, (at) => `{"role":"user","content":"m${at}"}`)}]`,
  },
  {
    name: "too many messages",
    body: () => `"messages":[${many(20_001, () => '{"role":"user","content":"m"}')}]`,
    status: 400,
  },
  { name: "many parts", body: () => user(`[${many(60_000, () => '{"type":"text","text":"m"}')}]`) },
];

const to = (model: string, requests: readonly HostileRequest[], more = "") =>
  requests.map((request) => ({
    ...request,
    body: () => `{"model":"${model}"${more},${request.body()}}`,
  }));
const PASSED = [
  ...textsIn((text) => user(text)),
  ...valuesIn((value) => user('"a"', `,"x":${value}`)),
];
const ITEMS = (content: string, more = "") =>
  `"input":[{"role":"user","content":${content}}]${more}`;
const mcpCall = (value: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hub.calculate","arguments":{"expression":${value}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`;
let chats = 0;
const chatOf = (parts: string) =>
  `{"id":"chat-${chats++}","messages":[{"id":"m","role":"user","parts":[${parts}]}]}`;
const STORED = { ms: 150, why: "Postgres gets a row of 30 MB in one message" };
const texts = (make: (text: string) => string, status: number) =>
  worstIn(make).map((request) => ({ ...request, status }));

/** The ways in. The models: `up` speaks chat completions, `ant`, `gem` and `oll` their own dialects, `agent/…` is an agent. */
export const DOORS: readonly Door[] = [
  { name: "chat completions", path: "/v1/chat/completions", requests: to("up/m", PASSED) },
  {
    name: "chat completions for Anthropic",
    path: "/v1/chat/completions",
    requests: to("ant/m", [...textsIn((text) => user(text)), ...CALLS, ...MESSAGES]),
  },
  {
    name: "chat completions for Gemini",
    path: "/v1/chat/completions",
    requests: to("gem/m", [...worstIn((text) => user(text)), ...CALLS, ...MESSAGES]),
  },
  {
    name: "chat completions for Ollama",
    path: "/v1/chat/completions",
    requests: to("oll/m", [...worstIn((text) => user(text)), ...CALLS]),
  },
  {
    name: "an agent as a model",
    path: "/v1/chat/completions",
    requests: to("agent/default", texts((text) => user(text), 400)),
  },
  {
    name: "responses, translated",
    path: "/v1/responses",
    requests: [
      ...to("up/m", textsIn((text) => ITEMS(text)), ',"store":false'),
      ...to(
        "up/m",
        valuesIn((value) => ITEMS('"a"', `,"metadata":{"a":${value}}`)),
        ',"store":false',
      ),
      ...to("up/m", worstIn((text) => ITEMS(text))).map((request) => ({
        ...request,
        upTo: STORED,
      })),
    ],
  },
  {
    name: "responses, native",
    path: "/v1/responses",
    requests: to("nat/m", worstIn((text) => ITEMS(text))),
  },
  {
    name: "messages, translated",
    path: "/v1/messages",
    requests: to("up/m", [...worstIn((text) => user(text)), ...MESSAGES], ',"max_tokens":9'),
  },
  {
    name: "messages, native",
    path: "/v1/messages",
    requests: to("ant/m", worstIn((text) => user(text)), ',"max_tokens":9'),
  },
  {
    name: "counts of tokens",
    path: "/v1/messages/count_tokens",
    requests: to("up/m", worstIn((text) => user(text)), ',"max_tokens":9'),
  },
  {
    name: "legacy completions",
    path: "/v1/completions",
    requests: to("up/m", worstIn((text) => `"prompt":${text}`)),
  },
  {
    name: "embeddings",
    path: "/v1/embeddings",
    requests: to("up/m", [{
      name: "tokens",
      body: () => `"input":${VALUES["numbers, as many as fit"]}`,
    }]),
  },
  {
    name: "chats of AI SDK clients",
    path: "/api/chat",
    requests: texts((text) => chatOf(`{"type":"text","text":${text}}`), 400),
  },
  {
    name: "MCP",
    path: "/mcp",
    headers: {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "hub.calculate",
    },
    requests: [
      ...Object.entries(TEXTS).map(([name, text]) => ({
        name,
        body: () => mcpCall(text(8_000_000)),
      })),
      ...valuesIn(mcpCall).filter(({ name }) => name !== "numbers, as many as fit"),
    ],
  },
];
