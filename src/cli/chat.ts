import { parseArgs } from "node:util";
import { createHub } from "../hub/create_hub.ts";
import { converse } from "./chat/converse.ts";
import { parseRunBudget } from "./budget_option.ts";
import { COMMAND_LINE } from "./command_line.ts";
import { EXIT } from "./exit_codes.ts";
import { findRemote } from "./find_remote.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

const OPTIONS = {
  "config": { type: "string" },
  "agent": { type: "string" },
  "model": { type: "string" },
  "session": { type: "string" },
  "url": { type: "string" },
  "key-env": { type: "string" },
  "preflight": { type: "boolean" },
  "budget": { type: "string", multiple: true },
} as const;

/** `loophub chat`: talks with an agent of a hub in this process, or of a running one, until its input ends. */
export async function chat(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: OPTIONS });
  const budget = parseRunBudget(values.budget ?? []);
  const extra = {
    ...(budget === undefined ? {} : { budget: { ...budget } }),
    ...(values.model === undefined ? {} : { model: values.model }),
    ...(values.preflight === true ? { preflight: true } : {}),
  };
  const wish = { agent: values.agent ?? null, session: values.session ?? null, extra };
  if (values.url !== undefined) {
    const hub = findRemote({ url: values.url, variable: values["key-env"] });
    return hub === null ? EXIT.usage : await converse(hub, wish);
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const token = crypto.randomUUID();
  const local = { token, principal: COMMAND_LINE };
  const hub = await createHub({ ...options, sharePostgres: true, local });
  try {
    hub.mcp.start();
    return await converse({
      name: "the hub",
      send(path, init = {}) {
        const headers = new Headers(init.headers);
        headers.set("authorization", `Bearer ${token}`);
        return hub.app.request(path, { ...init, headers });
      },
    }, wish);
  } finally {
    await hub.close();
  }
}
