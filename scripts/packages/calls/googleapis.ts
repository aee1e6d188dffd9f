import { google } from "googleapis";

/** Makes the address of a consent page; there is no network to reach. */
export function consent(): { host: string; scope: string | null; hasFiles: boolean } {
  const auth = new google.auth.OAuth2("id", "secret", "https://example.com/callback");
  const url = new URL(auth.generateAuthUrl({ scope: ["https://www.googleapis.com/auth/drive.readonly"] }));
  const drive = google.drive({ version: "v3", auth });
  return { host: url.host, scope: url.searchParams.get("scope"), hasFiles: typeof drive.files.list === "function" };
}
