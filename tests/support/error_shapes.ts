/** What no client may learn of a provider: put into every error below. */
export const CANARIES = {
  url: "https://llm-7.inner.acme.internal:8443/v1/chat?tenant=9",
  host: "llm-7.inner.acme.internal",
  hostPort: "10.20.30.40:8443",
  container: "vllm-blue:8000",
  org: "org-Ab12Cd34Ef56Gh78",
  project: "proj_9f8e7d6c5b4a",
  account: "acct_1NcanaryAccount",
  key: "sk-canary1234567890abcdefghij",
} as const;

/** Every text by which a canary could be known. */
export const FORBIDDEN = [
  "acme.internal",
  "10.20.30.40",
  ":8443",
  "vllm-blue",
  "Ab12Cd34",
  "9f8e7d6c",
  "canaryAccount",
  "sk-canary1234567890",
  "user_2zZcanary",
] as const;

/** What the provider means, in words that must reach the client. */
export const SAID = "bananas are not allowed here";

const { url, hostPort, container, org, project, account, key } = CANARIES;
const text =
  `${SAID}: see ${url}, asked ${hostPort} by ${container} for ${org} (${project}, ${account}) with ${key}`;

/** An error as one kind of server writes it. */
export interface ErrorShape {
  name: string;
  contentType: string;
  body(status: number): string;
  /** Whether clients can be told its words. */
  speaks: boolean;
  type?: string;
  code?: string;
  param?: string;
}

const json = (name: string, body: (status: number) => unknown, more: Partial<ErrorShape> = {}) => ({
  name,
  contentType: "application/json",
  body: (status: number) => JSON.stringify(body(status)),
  speaks: true,
  ...more,
});

/** Errors as servers of OpenAI's API and those like them write them. */
export const OPENAI_SHAPES: readonly ErrorShape[] = [
  json("openai", () => ({
    error: { message: text, type: "invalid_value", param: "tools[0]", code: "bad_fruit" },
  }), { type: "invalid_value", code: "bad_fruit", param: "tools[0]" }),
  json("openrouter", (status) => ({
    error: {
      message: text,
      code: status,
      metadata: {
        raw: `{"user_id":"user_2zZcanary","host":"${hostPort}"}`,
        provider_name: "Fruit",
      },
    },
    user_id: "user_2zZcanary1234",
  })),
  json("vllm", (status) => ({
    object: "error",
    message: text,
    type: "BadRequestError",
    param: null,
    code: status,
  }), { type: "BadRequestError" }),
  json("fastapi text", () => ({ detail: text })),
  json("fastapi list", () => ({
    detail: [{ type: "missing", loc: ["body", "messages", 0, "content"], msg: text, input: org }],
  }), { param: "messages.0.content" }),
  json("ollama", () => ({ error: text })),
  json("ollama object", () => ({ error: { message: text, type: "api_error" } }), {
    type: "api_error",
  }),
  json("nested", () => ({ error: { error: { message: text, code: "bad_fruit" } } }), {
    code: "bad_fruit",
  }),
  json("list", () => [{ error: { message: text, code: "bad_fruit" } }], { code: "bad_fruit" }),
  json("errors", () => ({ success: false, errors: [{ code: 7003, message: text }] }), {
    code: "7003",
  }),
  json("null error", () => ({ error: null, message: text })),
  json("numbers", () => ({ error: 7 }), { speaks: false }),
  { name: "text", contentType: "text/plain", body: () => text, speaks: true },
  {
    name: "html",
    contentType: "text/html",
    body: () => `<html><body><h1>${text}</h1></body></html>`,
    speaks: false,
  },
  { name: "empty", contentType: "text/plain", body: () => "", speaks: false },
];

/** Errors of providers with a dialect of their own. */
export const ANTHROPIC_SHAPE: ErrorShape = json("anthropic", () => ({
  type: "error",
  error: {
    type: "invalid_request_error",
    message: text,
    details: { error_code: "thread_unsupported_request", organization_id: org, seen: url },
  },
  request_id: "req_1",
}));

/** Google's `google.rpc.Status`. */
export const GOOGLE_SHAPE: ErrorShape = json("google", (status) => ({
  error: {
    code: status,
    message: text,
    status: "INVALID_ARGUMENT",
    details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", metadata: { consumer: org } }],
  },
}), { code: "invalid_argument" });

/** Throws when a text tells of the provider what it must not. */
export function assertTellsNothing(
  shown: string,
  where: string,
  more: readonly string[] = [],
): void {
  for (const canary of [...FORBIDDEN, ...more]) {
    if (shown.includes(canary)) {
      throw new Error(`${where} tells ${canary}: ${shown.slice(0, 2000)}`);
    }
  }
}
