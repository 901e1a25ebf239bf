import type { JsonObject } from "../../src/core/json.ts";
import { type Canaries, canary } from "./canaries.ts";
import { startHubProcess } from "./hub_process.ts";
import { type OAuthServer, startOAuthServer } from "./oauth_server.ts";
import { type OtlpReceiver, startOtlpReceiver } from "./otlp_receiver.ts";
import { startTestPostgres } from "./postgres.ts";
import { type ScriptedUpstream, startScriptedUpstream } from "./scripted_upstream.ts";
import { eventually } from "./test_hub.ts";
import { startTattlingServer, type TattlingServer } from "./tattling_server.ts";

const TATTLER = new URL("../fixtures/mcp-servers/tattler.mjs", import.meta.url).pathname;

/** Secrets that come in by the environment, by the variable that carries them. */
export function environmentCanaries() {
  return {
    UP_KEY: canary("UpKey"),
    UP_HEADER: canary("UpHeader"),
    MCP_ENV: canary("McpEnv"),
    MCP_ARG: canary("McpArg"),
    MCP_HEADER: canary("McpHeader"),
    MCP_URL: canary("McpUrl"),
    OAUTH_SECRET: canary("OauthSecret"),
    SHELL_TOKEN: canary("ShellToken"),
    LOOPHUB_MASTER_KEY: crypto.getRandomValues(new Uint8Array(32)).toHex(),
  };
}

/** Secrets that stand in the configuration as they are. */
export function literalCanaries() {
  return {
    literalKey: canary("LiteralKey"),
    literalHeader: canary("LiteralHeader"),
    literalMcpEnv: canary("LiteralMcpEnv"),
    literalMcpArg: canary("LiteralMcpArg"),
    literalMcpHeader: canary("LiteralMcpHeader"),
  };
}

/** A hub as a process of its own with a secret in every place that takes one, and the servers around it. */
export interface CanaryRig {
  folder: string;
  hub: Awaited<ReturnType<typeof startHubProcess>>;
  key: string;
  env: Record<string, string>;
  /** All secrets of the environment and the configuration. */
  configured: Canaries;
  upstream: ScriptedUpstream;
  far: TattlingServer;
  oauth: OAuthServer;
  receiver: OtlpReceiver;
  /** The answer to a request with the admin's key, or another one; what it says is kept in `answers`. */
  ask(path: string, body?: unknown, options?: AskOptions): Promise<Response & { said: string }>;
  answers: string[];
  /** Ends the hub as Ctrl-C does; gives its exit code. */
  end(): Promise<number>;
}

/** How a request differs from one with the admin's key. */
export interface AskOptions {
  key?: string;
  method?: string;
  headers?: Record<string, string>;
  /** The answer gives a secret to whom it is for: it is not kept. */
  gives?: boolean;
}

/** Its tools run without asking anybody. */
const TRUSTED = { trust: true, effect: { "*": "pure" }, trace: true };

function configOf(
  literal: ReturnType<typeof literalCanaries>,
  { upstream, far, oauth }: Pick<CanaryRig, "upstream" | "far" | "oauth">,
): JsonObject {
  const { literalKey, literalHeader, literalMcpEnv, literalMcpArg, literalMcpHeader } = literal;
  return {
    log: { level: "debug" },
    tracing: { bodies: true },
    providers: {
      up: { baseUrl: upstream.url, apiKey: "${UP_KEY}", headers: { "x-team": "${UP_HEADER}" } },
      lit: { baseUrl: upstream.url, apiKey: literalKey, headers: { "x-api-token": literalHeader } },
    },
    defaultModel: "up/m",
    workspace: {
      dir: "ws",
      securityMode: "full-control",
      approval: "never",
      shell: { script: true, env: { TOOL_TOKEN: "${SHELL_TOKEN}" } },
    },
    agents: {
      default: { tools: ["*__*"], approvals: { tainted: "allow" } },
      worker: { tools: ["shell.*"], approvals: { tainted: "allow" } },
    },
    mcpServers: {
      tattler: {
        command: Deno.execPath(),
        args: [
          "run",
          "-A",
          "--no-config",
          "--no-lock",
          TATTLER,
          "--token",
          "${MCP_ARG}",
          "--api-key",
          literalMcpArg,
        ],
        env: { SOME_TOKEN: "${MCP_ENV}", API_PASSWORD: literalMcpEnv, NO_COLOR: "1" },
        ...TRUSTED,
      },
      far: {
        url: `http://${far.origin}/mcp?access_token=\${MCP_URL}`,
        headers: { authorization: "Bearer ${MCP_HEADER}", "x-api-key": literalMcpHeader },
        ...TRUSTED,
      },
      open: { url: `http://${far.origin}/mcp`, ...TRUSTED },
      guarded: { url: oauth.url, ...TRUSTED },
      wrong: { url: oauth.url, oauth: { clientId: "wrong", clientSecret: "${OAUTH_SECRET}" } },
    },
  };
}

/** The text of an answer, also of one that breaks off. */
async function readAsFarAsItGoes({ body }: Response): Promise<string> {
  let text = "";
  try {
    for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) text += piece;
  } catch {
    // What came before is what clients have.
  }
  return text;
}

/** Runs a body with such a hub, then stops everything. */
export async function withCanaries(body: (rig: CanaryRig) => Promise<void>): Promise<void> {
  const folder = await Deno.realPath(
    await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-canary-" }),
  );
  await Deno.chmod(folder, 0o755);
  await Deno.mkdir(`${folder}/ws`);
  const upstream = await startScriptedUpstream();
  const far = startTattlingServer();
  const oauth = startOAuthServer();
  const receiver = startOtlpReceiver();
  const postgres = await startTestPostgres({ migrated: false });
  const [given, literal] = [environmentCanaries(), literalCanaries()];
  const env = { ...given, ...receiver.env, DATABASE_URL: postgres.url };
  const { password } = new URL(postgres.url);
  const config = configOf(literal, { upstream, far, oauth });
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  try {
    const hub = await startHubProcess(folder, env);
    const key = await eventually(() => hub.key());
    const answers: string[] = [];
    const ask: CanaryRig["ask"] = async (path, sent, options = {}) => {
      const method = options.method ?? (sent === undefined ? "GET" : "POST");
      const answer = await fetch(hub.url + path, {
        method,
        redirect: "manual",
        headers: {
          authorization: `Bearer ${options.key ?? key}`,
          ...(sent === undefined ? {} : { "content-type": "application/json" }),
          ...options.headers,
        },
        ...(sent === undefined ? {} : { body: JSON.stringify(sent) }),
      });
      const said = await readAsFarAsItGoes(answer);
      const fields = [...answer.headers].map(([name, value]) => `${name}: ${value}`);
      if (options.gives !== true) {
        answers.push(
          [`${method} ${path.split("?")[0]} ${answer.status}`, ...fields, said].join("\n"),
        );
      }
      return Object.assign(answer, { said });
    };
    // A server that is given to the tests may have a short one, or none.
    const database = password.length < 8 ? {} : { databasePassword: password };
    const configured = { ...given, ...literal, ...database };
    let isOver = false;
    const end = async () => {
      isOver = true;
      return await hub.end("SIGINT");
    };
    try {
      await body({
        ...{ folder, hub, key, env, configured, upstream, far, oauth, receiver, ask, answers, end },
      });
    } finally {
      if (!isOver) await end();
    }
  } finally {
    await postgres.stop();
    await receiver.stop();
    await oauth.stop();
    await far.stop();
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
}
