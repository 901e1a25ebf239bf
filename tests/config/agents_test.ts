import assert from "node:assert/strict";
import { loadText, LOCAL, refusal } from "./load_fixture.ts";

const providers = { local: LOCAL };

Deno.test("the text of a prompt file becomes the prompt, read beside the configuration", async () => {
  const file = { providers, agents: { clerk: { systemPromptFile: "prompts/clerk.md" } } };
  const { config } = await loadText(file, {
    files: { "/project/prompts/clerk.md": "You are ${NOT_EXPANDED}\n" },
  });
  assert.equal(config.agents.clerk?.systemPrompt, "You are ${NOT_EXPANDED}\n");
  assert.equal(config.agents.clerk?.systemPromptFile, "prompts/clerk.md");
  assert.deepEqual(config.agents.clerk?.models, ["local/m1"]);
});

Deno.test("a prompt file must be there, be readable and have a bound", async () => {
  const file = { providers, agents: { a: { systemPromptFile: "a.md" } } };
  const missing = await refusal(loadText(file));
  assert.match(missing.message, /agents\.a\.systemPromptFile .*got no file at \/project\/a\.md/);
  const huge = await refusal(
    loadText(file, { files: { "/project/a.md": "x".repeat(1024 * 1024 + 1) } }),
  );
  assert.match(huge.message, /got a file of 1048577 characters/);
  const denied = await refusal(loadText(file, {
    files: { "/project/a.md": new Deno.errors.IsADirectory("x") },
  }));
  assert.match(denied.message, /cannot be read \(IsADirectory\)/);
});

Deno.test("a configured default agent is kept, others stand beside the one that is made", async () => {
  const own = await loadText({
    providers,
    agents: { default: { models: ["local/m2"], tools: [] } },
  });
  assert.deepEqual(own.config.agents.default?.models, ["local/m2"]);
  assert.deepEqual(own.config.agents.default?.tools, []);
  const other = await loadText({ providers, agents: { helper: {} } });
  assert.deepEqual(Object.keys(other.config.agents), ["helper", "default"]);
});

Deno.test("models of agents may be public, aliases, or provider/model", async () => {
  const { config } = await loadText({
    providers,
    models: { fast: { targets: ["local/m1"] }, quick: "fast" },
    agents: { a: { models: ["fast", "quick", "local/m2"] } },
  });
  assert.deepEqual(config.agents.a?.models, ["fast", "quick", "local/m2"]);
  assert.equal(config.defaultModel, "fast");
});

Deno.test("models of agents that lead nowhere are mistakes with a hint", async () => {
  const { message, paths } = await refusal(loadText({
    providers,
    models: { fastest: { targets: ["local/m1"] } },
    agents: { a: { models: ["fastst", "lokal/m1", "local/m3", "fastest", "fastest"] } },
    defaultModel: "fasttest",
  }));
  assert.deepEqual(paths.toSorted(), [
    "agents.a.models[0]",
    "agents.a.models[1]",
    "agents.a.models[2]",
    "agents.a.models[4]",
    "defaultModel",
  ]);
  assert.match(message, /"fastst", wanted .*did you mean "fastest"/);
  assert.match(message, /"lokal\/m1", wanted .*did you mean "local"/);
  assert.match(
    message,
    /"local\/m3", wanted a model that providers\.local\.models lists \(m1, m2\)/,
  );
});

Deno.test("extra fields may not be those that the hub writes", async () => {
  const agents = { a: { extra: { reasoning_effort: "low", stream: true, model: "x" } } };
  const { paths } = await refusal(loadText({ providers, agents }));
  assert.deepEqual(paths.toSorted(), ["agents.a.extra.model", "agents.a.extra.stream"]);
});

Deno.test("toolChoice is a word or names a tool", async () => {
  for (const toolChoice of ["auto", "none", "required", { name: "hub.read_result" }]) {
    const { config } = await loadText({ providers, agents: { a: { toolChoice } } });
    assert.deepEqual(config.agents.a?.toolChoice, toolChoice);
  }
  const { message } = await refusal(loadText({
    providers,
    agents: { a: { toolChoice: "requird" }, b: { toolChoice: { nam: "x" } } },
  }));
  assert.match(message, /agents\.a\.toolChoice .*did you mean "required"/);
  assert.match(message, /agents\.b\.toolChoice\.name/);
});

Deno.test("an agent may ask other agents that there are, and not itself", async () => {
  const helper = { agents: ["clerk", "cl*", "!boss", "*"] };
  await loadText({ providers, agents: { helper, clerk: {} } });
  const wrong = await refusal(
    loadText({ providers, agents: { helper: { agents: ["clark", "helper"] }, clerk: {} } }),
  );
  assert.match(wrong.message, /agents\.helper\.agents\[0\] .*got "clark"/);
  assert.match(wrong.message, /agents\.helper\.agents\[1\] .*got "helper"/);
});
