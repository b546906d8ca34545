import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// Credentials that reach less than the bucket, and servers that lack an operation: a mount works as far as they reach, and
    /// `doctor` names what they lack.
    @Suite struct NarrowKeys {
        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo])
        func aKeyForAPrefixMountsListsAndIsExamined(_ provider: Provider) async throws {
            let arguments = ["--fault", "kind=prefix:data/", "--fault", "kind=403-for-404"]
            try await provider.withPailstore(arguments: arguments, prefix: "/data") { world, store in
                let place = ["-o", world.options([])]
                let doctor = try await world.pailfs(["doctor", world.bucket.url] + place)
                #expect(doctor.succeeded && !doctor.output.contains("FAILED"), "\(doctor)")
                try await world.mount()
                try await world.sh(
                    """
                    mkdir directory
                    echo 1 >directory/file
                    echo 2 >>directory/file
                    mv directory renamed
                    cp renamed/file copy
                    test "$(cat renamed/file)" = "$(printf '1\\n2')"
                    test ! -e missing
                    rm copy
                    """)
                try await world.unmount()
                for url in [world.bucket.url, world.bucket.url + "/"] {
                    let listing = try await world.pailfs(["ls", "-R", url] + place)
                    #expect(listing.output.contains("data/renamed/file"), "\(listing)")
                }
                let shown = try await world.pailfs(["stat", world.bucket.url + "/renamed/file"] + place)
                #expect(shown.succeeded, "\(shown)")
            }
        }

        /// The same key, and a mount of the bucket.
        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo])
        func aKeyForAPrefixMountsTheBucket(_ provider: Provider) async throws {
            let arguments = ["--fault", "kind=prefix:data/", "--fault", "kind=403-for-404"]
            try await provider.withPailstore(arguments: arguments) { world, store in
                try await world.mount(warning: "may not list")
                try await world.sh(
                    """
                    mkdir -p data/inner
                    echo text >data/inner/file
                    test "$(ls data)" = inner
                    mv data/inner data/renamed
                    test "$(cat data/renamed/file)" = text
                    """)
                let refused = try await world.attempt("ls")
                #expect(refused.errors.contains("Permission denied"), "\(refused)")
            }
        }

        @Test(.timeLimit(.minutes(5)), .rule("readdir.refused"), arguments: Provider.ofPailstore)
        func aKeyThatMayNotListMounts(_ provider: Provider) async throws {
            let lists = ["ListObjectsV2", "ListObjects", "GetBucket", "list", "listObjects"]
            let faults = lists.map { "kind=refuse:\($0):403" } + ["kind=403-for-404"]
            try await provider.withPailstore(arguments: faults.flatMap { ["--fault", $0] }) { world, store in
                try await world.mount(warning: "may not list")
                try await world.sh(
                    """
                    echo text >file
                    mkdir directory
                    echo 1 >directory/inner
                    echo 2 >>directory/inner
                    mv file directory/moved
                    test ! -e file
                    """)
                try await world.unmount()
                let log = try String(contentsOfFile: world.logPath, encoding: .utf8)
                #expect(log.contains("the store refuses to list"), "\(log)")
                try await world.mount(cache: "another", warning: "may not list")
                let refused = try await world.attempt("ls directory")
                #expect(refused.errors.contains("Permission denied"), "\(refused)")
                let reason = try await world.sh("getfattr --only-values -n user.pailfs.lasterror directory")
                #expect(reason.contains("list") && reason.contains("pailfs-stores(7)"), "\(reason)")
                try await world.sh(
                    """
                    test "$(cat directory/moved)" = text
                    test "$(cat directory/inner)" = "$(printf '1\\n2')"
                    test -d directory
                    test ! -e missing
                    rm directory/moved directory/inner
                    test ! -e directory/inner
                    test -d directory
                    """)
            }
        }

        /// A user without a role, whom the container's lists allow to read and write, and not to list (".rlistings" is missing).
        @Test(.timeLimit(.minutes(5)), .rule("readdir.refused"))
        func aUserOfSwiftWhoMayNotListMounts() async throws {
            try await Provider.swift.withWorld { world in
                let outcome = try await world.attempt(
                    """
                    cd $T; login=$(curl -sSi -H "X-Auth-User: $ST_USER" -H "X-Auth-Key: $ST_KEY" $ST_AUTH | tr -d '\\r')
                    url=$(sed -n 's/^X-Storage-Url: //ip' <<<"$login") token=$(sed -n 's/^X-Auth-Token: //ip' <<<"$login")
                    for container in pail pail_segments; do
                        curl -sS --fail -X PUT -H "X-Auth-Token: $token" -H 'X-Container-Read: .r:*' \
                            -H 'X-Container-Write: test:narrow' $url/$container
                    done
                    curl -sS --fail -X PUT -H "X-Auth-Token: $token" -d text $url/pail/object
                    unset ${!PAILFS_*}; export ST_USER=test:narrow ST_KEY=narrow
                    \(Programs.pailfs) mount swift://pail $M -o '\(world.options([]))'
                    cd $M
                    test "$(cat object)" = text
                    echo new >file; mkdir directory; mv file directory/moved; echo more >>directory/moved
                    test "$(cat directory/moved)" = "$(printf 'new\nmore')"
                    test ! -e file; test ! -e missing; rm object; test ! -e object
                    ! ls 2>$T/refused; grep -q 'Permission denied' $T/refused
                    cd /; exec \(Programs.pailfs) unmount $M
                    """)
                #expect(outcome.succeeded, "\(outcome)")
                #expect(outcome.errors.contains("the credentials from ST_USER may not list"), "\(outcome)")
                #expect(try await world.outside("get", "directory/moved") == "new\nmore\n")
            }
        }

        /// A policy with a condition on data/* does not allow to list the uploads of "data".
        @Test(.timeLimit(.minutes(5)), arguments: ["kind=prefix:data/", "op=none,kind=hang"])
        func uploadsBelowAPrefixAreListedWithoutASlash(_ fault: String) async throws {
            try await withStore { world, store in
                try await world.python(
                    """
                    import boto3, os
                    client = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name="us-east-1")
                    for key in "data/a", "data", "database":
                        client.create_multipart_upload(Bucket="pail", Key=key)
                    """)
                try await store.setFaults(fault)
                let listing = try await world.pailfs(["uploads", "list", "s3://pail/data", "-o", world.options([])])
                #expect(listing.succeeded && listing.output.contains("  data/a\n"), "\(listing)")
                #expect(!listing.output.contains("database"), "\(listing)")
            }
        }

        private static func storeObject(_ world: World) async throws {
            let path = world.scratch.path("text")
            try "text".write(toFile: path, atomically: false, encoding: .utf8)
            try await world.outside("put", "object", path)
        }

        struct Lack: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let faults: [String]
            let told: String
        }

        static let lacks = [
            Lack(
                testDescription: "delete", faults: ["kind=refuse:DeleteObject:403", "kind=refuse:DeleteObjects:403"],
                told: "refuses these credentials: delete;"),
            Lack(
                testDescription: "multipart", faults: ["kind=refuse:CreateMultipartUpload:403"],
                told: "refuses these credentials: multipart upload;"),
            Lack(
                testDescription: "read only",
                faults: ["Put", "Copy", "Delete"].map { "kind=refuse:\($0)Object:403" }
                    + ["kind=refuse:CreateMultipartUpload:403", "kind=refuse:DeleteObjects:403"],
                told: "refuses these credentials: put;"),
            Lack(
                testDescription: "list", faults: ["kind=refuse:ListObjectsV2:403", "kind=403-for-404"],
                told: "refuses these credentials: list"),
        ]

        @Test(.timeLimit(.minutes(5)), arguments: lacks)
        func theDoctorNamesWhatTheCredentialsLack(_ lack: Lack) async throws {
            try await withStore { world, store in
                try await Self.storeObject(world)
                try await store.setFaults(lack.faults)
                let doctor = try await world.pailfs(["doctor", "s3://pail", "-o", world.options([])])
                #expect(doctor.status == 1 && doctor.output.contains(lack.told), "\(doctor)")
                #expect(doctor.output.contains("ok       get") || lack.testDescription == "list", "\(doctor)")
            }
        }

        @Test(.timeLimit(.minutes(5))) func commandsOnAnObjectNeedNoListing() async throws {
            try await withStore { world, store in
                try await Self.storeObject(world)
                try await store.setFaults("kind=refuse:ListObjectsV2:403")
                let place = ["-o", world.options([])]
                let shown = try await world.pailfs(["stat", "s3://pail/object"] + place)
                #expect(shown.succeeded, "\(shown)")
                let listing = try await world.pailfs(["ls", "s3://pail/object"] + place)
                #expect(!listing.succeeded && listing.errors.contains("may not list"), "\(listing)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aReadOnlyKeyReadsAndRefusesWritesWithEACCES() async throws {
            try await withStore { world, store in
                try await Self.storeObject(world)
                try await store.setFaults(Self.lacks[2].faults)
                world.expectsErrorsInLog = true
                try await world.mount()
                try await world.sh("test \"$(cat object)\" = text; test \"$(ls)\" = object")
                let cost = try await store.requests {
                    let big = try await world.attempt("head -c 20000000 /dev/zero >big")
                    #expect(big.errors.contains("Permission denied"), "\(big)")
                }
                #expect(cost.sent < 1_000_000, "\(cost), \(cost.sent) bytes")
                let made = try await world.attempt("mkdir directory")
                #expect(made.errors.contains("Permission denied"), "\(made)")
            }
        }

        /// What today's servers lack: every way to change a tree leads to the same end.
        @Test(
            .timeLimit(.minutes(5)),
            arguments: [
                ["kind=refuse:DeleteObjects:501"], ["kind=refuse:CopyObject:501"], ["kind=refuse:CopyObject:403"],
                ["op=CopyObject,key=*/,kind=status:400"], ["kind=refuse:CreateMultipartUpload:501"],
                ["kind=refuse:CreateMultipartUpload:403"], ["kind=refuse:UploadPartCopy:501"],
                ["kind=head-without-length"], ["kind=opaque-etag"],
                [
                    "kind=refuse:DeleteObjects:405", "kind=refuse:CopyObject:405", "kind=refuse:UploadPartCopy:405",
                    "kind=refuse:CreateMultipartUpload:405", "kind=head-without-length", "kind=opaque-etag",
                ],
            ])
        func aTreeIsChangedOnAServerThatLacks(_ faults: [String]) async throws {
            try await withStore(arguments: faults.flatMap { ["--fault", $0] }) { world, store in
                try await world.mount(["attrs=exact"])
                try await world.sh(
                    """
                    mkdir -p directory/inner $T/expected
                    touch directory/empty
                    echo 1 >directory/inner/file
                    ls -l directory
                    echo 2 >>directory/empty
                    chmod 600 directory/inner/file
                    chmod 700 directory/inner
                    head -c 20000000 /dev/urandom >$T/expected/big
                    cp $T/expected/big big
                    printf changed | dd of=big bs=1 seek=9000000 conv=notrunc status=none
                    printf changed | dd of=$T/expected/big bs=1 seek=9000000 conv=notrunc status=none
                    mv directory renamed
                    mv big renamed/big
                    cp renamed/big renamed/copy
                    rm -r renamed/inner
                    cmp $T/expected/big renamed/big
                    """, deadline: .seconds(120))
                if faults != ["kind=refuse:CreateMultipartUpload:403"] {
                    let status = try await world.pailfs(["status", world.mountpoint])
                    #expect(status.output.contains("  server  "), "\(status)")
                }
                try await world.unmount()
                try await world.mount(["attrs=exact"], cache: "another")
                try await world.sh(
                    """
                    cmp $T/expected/big renamed/big
                    cmp $T/expected/big renamed/copy
                    test "$(cat renamed/empty)" = 2
                    test "$(ls)" = renamed
                    test "$(ls renamed | tr '\\n' ' ')" = 'big copy empty '
                    """, deadline: .seconds(120))
            }
        }

        @Test(.timeLimit(.minutes(5))) func theDoctorShowsWhatAServerLacks() async throws {
            let lacks = [
                ("kind=refuse:DeleteObjects:501", "delete of several"), ("kind=refuse:CopyObject:501", "copy"),
                ("kind=refuse:CreateMultipartUpload:501", "multipart upload"), ("kind=opaque-etag", "put"),
                ("kind=head-without-length", "head, metadata"), ("kind=refuse:UploadPartCopy:501", "copy of a part"),
                ("op=CopyObject,key=*/,kind=status:400", "copy of a directory"),
            ]
            try await withStore { world, store in
                for (fault, check) in lacks {
                    try await store.setFaults(fault)
                    let doctor = try await world.pailfs(["doctor", "s3://pail", "-o", world.options([])])
                    #expect(doctor.succeeded && doctor.output.contains("differs  \(check)"), "\(doctor)")
                    #expect(try await world.outside("keys") == "")
                }
            }
        }
    }
}
