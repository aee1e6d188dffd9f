import { ImapFlow } from "imapflow";

/** Reads who sent a message. */
export async function sender(at: string): Promise<{ exists: number; subject?: string; from?: string }> {
  const [host, port] = at.split(":") as [string, string];
  const auth = { user: "user", pass: "right" };
  const client = new ImapFlow({ host, port: Number(port), secure: false, auth, logger: false });
  await client.connect();
  const { exists } = await client.mailboxOpen("INBOX");
  const message = await client.fetchOne("1", { envelope: true });
  await client.logout();
  const envelope = message ? message.envelope : undefined;
  return { exists, subject: envelope?.subject, from: envelope?.from?.[0]?.address };
}
