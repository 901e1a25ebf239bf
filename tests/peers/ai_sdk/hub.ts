/**
 * A hub for the AI SDK's own clients, in a process of its own: it prints its address, a key and the address of what its
 * tool pays to as one line of JSON, and ends with its stdin. Its model does what the last user message says: `pay N`
 * calls a tool that a person has to approve, `slow` answers bit by bit, anything else is repeated.
 */
import { PAY, startTill } from "../../support/approvals_rig.ts";
import {
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../../support/scripted_upstream.ts";
import { withHub } from "../../support/test_hub.ts";

interface Said {
  role: string;
  content: string | { text: string }[];
}

const textOf = ({ content }: Said) =>
  typeof content === "string" ? content : content.map(({ text }) => text).join("");

const upstream = await startScriptedUpstream();
const till = startTill();

let slow = 0;

function reply({ json }: RecordedRequest) {
  const messages = json.messages as unknown as Said[];
  const last = messages.at(-1);
  if (last === undefined || last.role === "tool") return chatStream({ text: "Done" });
  const text = textOf(last);
  // Never ends by itself, the first time.
  if (text === "slow" && slow++ % 2 === 0) return chatStream({ text: "Slow and", endAfter: 2, end: "stall" });
  const amounts = [.../\bpay ([\d ]+)/.exec(text)?.[1]?.split(" ") ?? []].map(Number);
  if (amounts.length === 0) return chatStream({ text: `You said ${text}` });
  return chatStream({
    toolCalls: amounts.map((amount) => ({
      name: "test_pay",
      arguments: { url: till.url, amount },
    })),
  });
}

upstream.script(reply);
await withHub({
  providers: { one: { baseUrl: upstream.url } },
  defaultModel: "one/m",
  operations: { modules: [PAY] },
}, async ({ url, key }) => {
  const facts = JSON.stringify({ url, key });
  await Deno.stdout.write(new TextEncoder().encode(`${facts}\n`));
  for await (const _ of Deno.stdin.readable);
});
await upstream.stop();
await till.stop();
