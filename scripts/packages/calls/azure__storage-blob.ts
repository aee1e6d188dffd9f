import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";

/** Uploads a blob, and downloads it. */
export async function blob(at: string): Promise<{ path: string; text: string }> {
  const credential = new StorageSharedKeyCredential("account", "c2VjcmV0");
  const service = new BlobServiceClient(`http://${at}/account`, credential);
  const client = service.getContainerClient("container").getBlockBlobClient("a b.txt");
  await client.upload("content", 7);
  return { path: new URL(client.url).pathname, text: (await client.downloadToBuffer()).toString() };
}
