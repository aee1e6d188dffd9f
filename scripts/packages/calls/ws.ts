import { Receiver, Sender, WebSocket } from "ws";

/** Frames a message; there is no server to connect to. */
export async function framed(): Promise<{ frame: string; failed: boolean; hasReceiver: boolean }> {
  const options = { fin: true, opcode: 1, mask: false, readOnly: false, rsv1: false };
  const pieces = Sender.frame(Buffer.from("hello"), options) as Buffer[];
  const socket = new WebSocket("ws://127.0.0.1:9");
  const failed = await new Promise<boolean>((resolve) => {
    socket.on("open", () => resolve(false));
    socket.on("error", () => resolve(true));
  });
  return { frame: Buffer.concat(pieces).toString("hex"), failed, hasReceiver: typeof Receiver === "function" };
}
