import { hasProgram } from "./programs.ts";

/** Whether Chromium is installed here. */
export const hasChromium: boolean = hasProgram("chromium");

/** A page that a headless browser has opened. */
export interface BrowserPage {
  /** What the page comes to; rejects, with what the browser said, when that ends before, and after a minute. */
  until<T>(outcome: Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Opens a page in a browser with a profile of its own. */
export async function openPage(url: string): Promise<BrowserPage> {
  const profile = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-chromium-" });
  const child = new Deno.Command("chromium", {
    args: [
      ...["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
      ...["--no-first-run", "--no-proxy-server", "--disable-background-networking"],
      ...["--disable-component-update", "--disable-sync", "--disable-extensions"],
      `--user-data-dir=${profile}`,
      url,
    ],
    // What it starts ends with it, and it writes nowhere but there.
    env: { HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let isClosed = false;
  const said = new Response(child.stderr).text();
  const failed = Promise.all([said, child.status]).then(([said, { code }]): Promise<never> => {
    if (isClosed) return new Promise(() => {});
    throw new Error(`Chromium has ended with ${code}: ${said.slice(-4000)}`);
  });
  failed.catch(() => {});
  return {
    async until(outcome) {
      const limit = Promise.withResolvers<never>();
      const timer = setTimeout(() => limit.reject(new Error(`${url} took a minute`)), 60_000);
      try {
        return await Promise.race([outcome, failed, limit.promise]);
      } finally {
        clearTimeout(timer);
      }
    },
    async close() {
      isClosed = true;
      try {
        child.kill("SIGTERM");
      } catch {
        // It has ended.
      }
      await child.status;
      // Its last processes hold this open, and write to the profile until then.
      await said;
      await Deno.remove(profile, { recursive: true });
    },
  };
}
