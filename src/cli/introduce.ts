import { print } from "./print.ts";

/** What a start tells whoever sits before it. */
export interface Introduction {
  url: string;
  databaseUrl: string;
  models: readonly string[];
  /** A key that was made now; null when there were some. */
  key: string | null;
}

/** Prints where the hub is and, at the very first start, how to talk to it. */
export function introduce({ url, databaseUrl, models, key }: Introduction): void {
  const model = models[0] ?? "PROVIDER/MODEL";
  print(`Loophub listens on ${url}`);
  print(`  API       ${url}/v1`);
  print(`  psql      ${databaseUrl}`);
  print(`  models    ${models.join(", ") || "any name of a configured provider"}`);
  if (key === null) return;
  print(`
This is the first start. Your key, shown only now:

export OPENAI_BASE_URL=${url}/v1 OPENAI_API_KEY=${key}

# the proxy
curl ${url}/v1/chat/completions -H "authorization: Bearer ${key}" -H "content-type: application/json" -d '{"model":"${model}","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

# an agent run
curl -N ${url}/api/chat -H "authorization: Bearer ${key}" -H "content-type: application/json" -d '{"id":"first-chat","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Use current_time and calculate \\"6*7\\""}]}]}'
`);
}
