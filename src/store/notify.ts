import type { Database } from "./database.ts";
import { toPayloads, type Wakeup } from "./wakeup.ts";

/** Where all replicas of a database tell and hear. */
export const CHANNEL = "loophub";

/** Tells all replicas of this database, the sender too. One statement, in no transaction of anybody. */
export async function notify(db: Database, wakeup: Wakeup): Promise<void> {
  const payloads = toPayloads(wakeup);
  await db.within(db.control`
    select pg_notify(${CHANNEL}, payload)
    from jsonb_array_elements_text(${db.control.json(payloads)}::jsonb) as payload`);
}
