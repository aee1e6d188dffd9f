import { once } from "node:events";
import { WebSocket } from "ws";

/** Sends a text and bytes, and hears the answers. */
export async function said(at: string): Promise<{ text: string; bytes: number }> {
  const socket = new WebSocket(`ws://${at}`);
  await once(socket, "open");
  const next = async (data: string | Uint8Array): Promise<Buffer> => {
    const heard = once(socket, "message");
    socket.send(data);
    return (await heard)[0] as Buffer;
  };
  const text = String(await next("hello"));
  const { length: bytes } = await next(new Uint8Array(100_000));
  socket.close();
  return { text, bytes };
}
