import { ImapFlow } from "imapflow";

/** A client that reaches no server. */
export async function client(): Promise<{ isUsable: boolean; failed: boolean; host: string }> {
  const client = new ImapFlow({
    host: "127.0.0.1",
    port: 9,
    secure: false,
    auth: { user: "a", pass: "b" },
    logger: false,
  });
  client.on("error", () => {});
  const failed = await client.connect().then(
    () => false,
    () => true,
  );
  return { isUsable: client.usable, failed, host: client.host };
}
