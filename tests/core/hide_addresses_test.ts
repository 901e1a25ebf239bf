import assert from "node:assert/strict";
import { hideAddresses } from "../../src/core/hide_addresses.ts";

Deno.test("hideAddresses: URLs, hosts, IP addresses and ports go, whatever the origin of the message", () => {
  for (
    const [text, wanted] of [
      ["see https://platform.openai.com/docs/errors.", "see [address]."],
      [
        "error sending request for url (http://127.0.0.1:4711/mcp): refused",
        "error sending request for url ([address]): refused",
      ],
      ["tcp connect error: 10.1.2.3:8443", "tcp connect error: [address]"],
      ["connect ECONNREFUSED ::1:11434", "connect ECONNREFUSED [address]"],
      ["[fd00::12]:5432 refused", "[address] refused"],
      ["fe80::1 is down", "[address] is down"],
      ["upstream llm-7.prod.internal:9000 closed", "upstream [address] closed"],
      ["vllm:8000 closed the connection", "[address] closed the connection"],
      [
        "dial tcp: lookup ollama on 127.0.0.11:53: no such host",
        "dial tcp: lookup [address] on [address]: no such host",
      ],
      ["getaddrinfo ENOTFOUND gateway", "getaddrinfo ENOTFOUND [address]"],
      ["Cannot connect to host inner ssl:default", "Cannot connect to host [address] ssl:default"],
      [
        "HTTPConnectionPool(host='llm', port=8000): Max retries",
        "HTTPConnectionPool([address]): Max retries",
      ],
      [
        'certificate not valid for name "api.acme.com"',
        'certificate not valid for name "[address]"',
      ],
      ["db.acme.svc.cluster.local is gone", "[address] is gone"],
      ["localhost refused on port 5432", "[address] refused on port [address]"],
      ["my-resource.openai.azure.com said no", "[address] said no"],
      ["proxy.acme.co.uk said no", "[address] said no"],
    ] as const
  ) assert.equal(hideAddresses(text), wanted);
});

Deno.test("hideAddresses: members, models, versions, counts and times stay", () => {
  for (
    const text of [
      "messages.0.content.1.text: Field required",
      "tools.0.custom.input_schema: JSON schema is invalid",
      "generation_config.response_schema is not supported",
      "The model `llama3.2:70b` does not exist",
      "claude-sonnet-4.5 and gemini-2.5-pro and gpt-4.1-mini",
      "us.anthropic.claude-3-5-sonnet-20241022-v2:0",
      "limit:10000 used:9000 at 12:34:56",
      "This model's maximum context length is 128000 tokens",
      "2026-01-02T03:04:05.678Z",
      "Input should be 'auto' or 'none', e.g. auto",
      "Invalid schema for function 'a.b': None is not of type 'object'",
      "provider/model and openrouter/z-ai/glm-4.5",
      "support is important: export 12 reports",
      "Retry in 6.123s. std::vector",
    ]
  ) assert.equal(hideAddresses(text), text);
});
