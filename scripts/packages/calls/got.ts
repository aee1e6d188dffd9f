import got, { HTTPError, Options } from "got";

/** Makes the options of a request, and sends one that nothing answers. */
export async function request(): Promise<{ url: string; retry: number | undefined; failed: boolean; name: string }> {
  const options = new Options("https://example.com/items", { searchParams: { q: "a b" }, retry: { limit: 1 } });
  const client = got.extend({ retry: { limit: 0 }, timeout: { request: 2_000 } });
  const failed = await client("http://127.0.0.1:9/").then(
    () => false,
    () => true,
  );
  return { url: String(options.url), retry: options.retry.limit, failed, name: HTTPError.name };
}
