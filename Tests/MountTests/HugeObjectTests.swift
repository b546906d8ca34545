import Foundation
import Testing

private let takesLong = ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] != nil

extension RealMounts {
    /// What is done with a huge object moves few of its bytes (SEMANTICS, "Requests"). Only with PAILFS_TEST_LONG.
    @Suite struct HugeObjects {
        @Test(
            .timeLimit(.minutes(20)), .enabled(if: takesLong, "15 GiB in a store take minutes"))
        func anAppendSendsAPartAndACopyNothing() async throws {
            try await withStore { world, store in
                try await world.python(Self.makeObjects, deadline: .seconds(300))
                try await world.mount(["ttl=600"])
                try await world.sh("ls -l >/dev/null")
                let append = try await store.requests {
                    try await world.sh(
                        "printf appended | dd of=grown bs=8 oflag=append conv=notrunc status=none",
                        deadline: .seconds(300))
                }
                #expect(append.counts["UploadPart", default: 0] <= 2, "append: \(append)")
                #expect(append.counts["PutObject"] == nil, "append: \(append)")
                #expect(max(append.sent, append.received) <= 128 << 20, "append: \(append)")
                let copy = try await store.requests {
                    try await world.sh("cp five copied", deadline: .seconds(300))
                }
                #expect(max(copy.sent, copy.received) <= 65_536, "cp: \(copy)")
                try await world.sh(
                    """
                    test "$(stat -c %s grown copied | tr '\\n' ' ')" = "$(((10 << 30) + 8)) $((5 << 30)) "
                    test "$(tail -c 8 grown)" = appended
                    cmp -n 1000000 -i $((7 << 30)):$((3 << 30)) grown five
                    cmp -n 1000000 -i $((4 << 30)) copied five
                    """)
            }
        }

        /// `five` of 5 GiB and `grown` of 10 GiB, which the store puts together from 64 MiB.
        private static let makeObjects = """
            import boto3, os
            from botocore.config import Config
            client = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name="us-east-1",
                                  config=Config(s3={"addressing_style": "path"}))
            bucket = os.environ["BUCKET"]

            def join(name, source, times):
                upload = dict(Bucket=bucket, Key=name)
                upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
                parts = []
                for number in range(1, times + 1):
                    copied = client.upload_part_copy(**upload, PartNumber=number, CopySource=f"{bucket}/{source}")
                    parts.append(dict(PartNumber=number, ETag=copied["CopyPartResult"]["ETag"]))
                client.complete_multipart_upload(**upload, MultipartUpload=dict(Parts=parts))

            client.put_object(Bucket=bucket, Key="seed", Body=os.urandom(64 << 20))
            join("one", "seed", 16)
            join("five", "one", 5)
            join("grown", "one", 10)
            """
    }
}
