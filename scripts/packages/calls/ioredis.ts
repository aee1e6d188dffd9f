import { once } from "node:events";
import { Redis } from "ioredis";

/** Keeps a text, counts in one pipeline, and hears what is published. */
export async function client(at: string): Promise<{ text: string | null; counts: unknown; heard: unknown[] }> {
  const redis = new Redis(`redis://${at}/4`);
  const subscriber = new Redis(`redis://${at}`);
  try {
    await redis.set("greeting", "grüß dich");
    const counts = await redis.pipeline().set("count", 0).incr("count").incr("count").exec();
    const heard = once(subscriber, "message");
    await subscriber.subscribe("news");
    await redis.publish("news", "rain");
    return { text: await redis.get("greeting"), counts, heard: await heard };
  } finally {
    redis.disconnect();
    subscriber.disconnect();
  }
}
