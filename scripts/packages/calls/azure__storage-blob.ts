import {
  BlobSASPermissions,
  BlobServiceClient,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";

/** Signs the address of a blob; there is no cloud to reach. */
export function signed(): { url: string; permissions: string | undefined; hasSignature: boolean } {
  const credential = new StorageSharedKeyCredential("account", "c2VjcmV0");
  const service = new BlobServiceClient("https://account.blob.core.windows.net", credential);
  const { url } = service.getContainerClient("container").getBlockBlobClient("a b.txt");
  const query = generateBlobSASQueryParameters(
    {
      containerName: "container",
      blobName: "a b.txt",
      permissions: BlobSASPermissions.parse("r"),
      expiresOn: new Date("2030-01-01T00:00:00Z"),
    },
    credential,
  );
  return { url, permissions: query.permissions, hasSignature: query.signature.length > 0 };
}
