import { Redis } from "ioredis";

/** Looks at a client that does not connect. */
export async function client(): Promise<{ status: string; port: number | undefined; refused: string }> {
  const redis = new Redis("redis://127.0.0.1:9/4", {
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  });
  redis.on("error", () => {});
  const { status, options } = redis;
  const refused = await redis.get("key").then(
    () => "",
    (error: unknown) => (error instanceof Error ? "refused" : ""),
  );
  redis.disconnect();
  return { status, port: options.port, refused };
}
