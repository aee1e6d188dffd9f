import { Storage } from "@google-cloud/storage";

/** Names a file; there is no cloud to reach. */
export function file(): { name: string; uri: string; url: string } {
  const storage = new Storage({ projectId: "project", apiEndpoint: "https://storage.example.com" });
  const file = storage.bucket("my-bucket").file("folder/my file.txt");
  return { name: file.name, uri: file.cloudStorageURI.href, url: file.publicUrl() };
}
