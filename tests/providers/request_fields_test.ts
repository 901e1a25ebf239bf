import assert from "node:assert/strict";
import type { BetaMessageStreamParams } from "@anthropic-ai/sdk/resources/beta/messages/messages";
import type { ChatCompletionCreateParamsBase } from "openai/resources/chat/completions/completions";
import type { CompletionCreateParamsBase } from "openai/resources/completions";
import type { EmbeddingCreateParams } from "openai/resources/embeddings";
import type { ResponseCreateParamsBase } from "openai/resources/responses/responses";
import type { ImageEditParamsBase, ImageGenerateParamsBase } from "openai/resources/images";
import type { SpeechCreateParams } from "openai/resources/audio/speech";
import type { TranscriptionCreateParamsBase } from "openai/resources/audio/transcriptions";
import { PROVIDER_KINDS } from "../../src/config/known_providers.ts";
import { QUIRKS } from "../../src/providers/quirks.ts";
import { requestFieldsOf } from "../../src/providers/request_fields.ts";
import { readFields } from "../../src/wire/read_fields.ts";

/** Every field that a client library can send, with whether a key with limits may: a new field stops the compiler here. */
type Fields<T> = Record<keyof T, boolean>;

const CHAT: Fields<ChatCompletionCreateParamsBase> = {
  messages: true,
  model: true,
  audio: true,
  frequency_penalty: true,
  function_call: true,
  functions: true,
  logit_bias: true,
  logprobs: true,
  max_completion_tokens: true,
  max_tokens: true,
  metadata: true,
  modalities: true,
  moderation: true,
  n: true,
  parallel_tool_calls: true,
  prediction: true,
  presence_penalty: true,
  prompt_cache_key: true,
  prompt_cache_options: true,
  prompt_cache_retention: true,
  reasoning_effort: true,
  response_format: true,
  safety_identifier: true,
  seed: true,
  service_tier: true,
  stop: true,
  store: true,
  stream: true,
  stream_options: true,
  temperature: true,
  tool_choice: true,
  tools: true,
  top_logprobs: true,
  top_p: true,
  user: true,
  verbosity: true,
  web_search_options: true,
};
const COMPLETIONS: Fields<CompletionCreateParamsBase> = {
  model: true,
  prompt: true,
  best_of: true,
  echo: true,
  frequency_penalty: true,
  logit_bias: true,
  logprobs: true,
  max_tokens: true,
  n: true,
  presence_penalty: true,
  seed: true,
  stop: true,
  stream: true,
  stream_options: true,
  suffix: true,
  temperature: true,
  top_p: true,
  user: true,
};
const EMBEDDINGS: Fields<EmbeddingCreateParams> = {
  input: true,
  model: true,
  dimensions: true,
  encoding_format: true,
  user: true,
};
const RESPONSES: Fields<ResponseCreateParamsBase> = {
  access_programs: true,
  background: true,
  context_management: true,
  conversation: true,
  image: true,
  include: true,
  input: true,
  instructions: true,
  max_output_tokens: true,
  max_tool_calls: true,
  metadata: true,
  model: true,
  moderation: true,
  parallel_tool_calls: true,
  previous_response_id: true,
  prompt: true,
  prompt_cache_key: true,
  prompt_cache_options: true,
  prompt_cache_retention: true,
  reasoning: true,
  safety_identifier: true,
  service_tier: true,
  store: true,
  stream: true,
  stream_options: true,
  temperature: true,
  text: true,
  tool_choice: true,
  tools: true,
  top_logprobs: true,
  top_p: true,
  truncation: true,
  user: true,
};
const MESSAGES: Fields<Omit<BetaMessageStreamParams, "betas">> = {
  model: true,
  max_tokens: true,
  messages: true,
  billing_policy: true,
  cache_control: true,
  compaction: true,
  container: true,
  context_management: true,
  diagnostics: true,
  // They name other models.
  fallbacks: false,
  fallback_credit_token: false,
  inference_geo: true,
  mcp_servers: true,
  metadata: true,
  output_config: true,
  output_format: true,
  service_tier: true,
  speed: true,
  stop_sequences: true,
  stream: true,
  system: true,
  thinking: true,
  thread: true,
  tool_choice: true,
  tools: true,
  user_profile_id: true,
  workspace_id: true,
};
const IMAGES: Fields<ImageGenerateParamsBase & ImageEditParamsBase> = {
  prompt: true,
  background: true,
  complexity: true,
  frame_count: true,
  frame_duration_ms: true,
  image: true,
  input_fidelity: true,
  markup: true,
  mask: true,
  model: true,
  moderation: true,
  n: true,
  output_compression: true,
  output_format: true,
  partial_images: true,
  quality: true,
  response_format: true,
  safety_identifier: true,
  size: true,
  stream: true,
  style: true,
  svg: true,
  user: true,
};
const AUDIO: Fields<SpeechCreateParams & TranscriptionCreateParamsBase> = {
  file: true,
  input: true,
  model: true,
  voice: true,
  instructions: true,
  response_format: true,
  speed: true,
  stream_format: true,
  chunking_strategy: true,
  include: true,
  keywords: true,
  known_speaker_names: true,
  known_speaker_references: true,
  language: true,
  languages: true,
  prompt: true,
  stream: true,
  temperature: true,
  timestamp_granularities: true,
};

const PARTS = {
  chat: CHAT,
  completions: COMPLETIONS,
  embeddings: EMBEDDINGS,
  responses: RESPONSES,
  messages: MESSAGES,
  images: IMAGES,
  audio: AUDIO,
};

Deno.test("requestFieldsOf: every field of the client libraries has a place, or is refused knowingly", () => {
  for (const [part, fields] of Object.entries(PARTS)) {
    for (const kind of PROVIDER_KINDS) {
      for (const [name, isAllowed] of Object.entries(fields)) {
        assert.equal(requestFieldsOf(part, kind)?.roles.has(name), isAllowed, `${part}.${name}`);
      }
    }
  }
});

Deno.test("requestFieldsOf: each kind obeys the bound that the hub's own requests have", () => {
  for (const kind of PROVIDER_KINDS) {
    const role = requestFieldsOf("chat", kind)?.roles.get(QUIRKS[kind].maxTokensField);
    assert.equal(role?.does, "limit", kind);
  }
});

Deno.test("readFields: requests of real clients pass a strict reading", async () => {
  const folders = { samples: "chat", samples_messages: "messages", responses: "responses" };
  let count = 0;
  for (const [folder, part] of Object.entries(folders)) {
    const at = new URL(`../fixtures/${folder}/`, import.meta.url);
    for await (const { name } of Deno.readDir(at)) {
      for (const line of (await Deno.readTextFile(new URL(name, at))).trim().split("\n")) {
        const { body } = JSON.parse(line);
        const rules = requestFieldsOf(part, "openai-compatible");
        assert.ok(rules !== null);
        const bytes = new TextEncoder().encode(JSON.stringify(body));
        try {
          await readFields(bytes, rules, { isStrict: true, allowed: [] });
        } catch (error) {
          assert.fail(`${folder}/${name}: ${error}`);
        }
        count++;
      }
    }
  }
  assert.ok(count > 50, `${count} requests`);
});
