import bcrypt from "bcryptjs";

/** Hashes a password, and compares it. */
export async function hash(): Promise<{ hash: string; right: boolean; wrong: boolean }> {
  const hash = await bcrypt.hash("B4c0/\\/", "$2b$04$abcdefghijklmnopqrstuu");
  return { hash, right: await bcrypt.compare("B4c0/\\/", hash), wrong: await bcrypt.compare("not_bacon", hash) };
}
