import { print } from "./print.ts";

/** What a start tells whoever sits before it. */
export interface Introduction {
  url: string;
  databaseUrl: string;
  models: readonly string[];
  /** A key that was made now; null when there were some. */
  key: string | null;
}

/**
 * Prints where the hub is and, at the very first start, how to talk to it. It is printed at once: a program that reads
 * the address from a pipe has the key with it.
 */
export function introduce({ url, databaseUrl, models, key }: Introduction): void {
  const address = `Loophub listens on ${url}
  API       ${url}/v1
  psql      ${databaseUrl}
  models    ${models.join(", ") || "any name of a configured provider"}`;
  print(key === null ? address : `${address}\n${firstSteps(url, key, models[0])}`);
}

function firstSteps(url: string, key: string, model = "PROVIDER/MODEL"): string {
  return `
This is the first start. Your key, shown only now:

export OPENAI_BASE_URL=${url}/v1 OPENAI_API_KEY=${key}

# the proxy
curl ${url}/v1/chat/completions -H "authorization: Bearer ${key}" -H "content-type: application/json" -d '{"model":"${model}","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

# an agent run
curl -N ${url}/api/chat -H "authorization: Bearer ${key}" -H "content-type: application/json" -d '{"id":"first-chat","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Use current_time and calculate \\"6*7\\""}]}]}'
`;
}
