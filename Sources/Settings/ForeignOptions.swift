/// Options of libfuse and of other programs that mount buckets, as their lines in fstab(5) have them: accepted where pailfs does
/// what they say, refused with the option to write otherwise.
///
/// `-` and `_` are the same in names. Sources: mount.fuse3(8), s3fs(1), "rclone mount", mount-s3, goofys, geesefs and gcsfuse.
enum ForeignOptions {
    /// The option to use for a name of another program; nil for a name that is not known. Throws `.otherProgram`.
    static func option(named name: String, _ wanted: String) throws(SettingsError) -> MountOption? {
        if let own = aliases[wanted] { return OptionTable.options.first { $0.name == own } }
        if ignored.contains(wanted) { return .always(name) }
        if wanted == "vfs-cache-mode" {
            return .accepting(
                name, ["writes", "full"], otherwise: "leave it out: pailfs stages written files in any case")
        }
        if let remedy = remedies[wanted] { throw .otherProgram(name: name, remedy: remedy) }
        return nil
    }

    /// Names with the same meaning and the same form of value.
    private static let aliases: [String: String] = [
        // s3fs, ossfs, cosfs
        "url": "endpoint", "host": "endpoint", "passwd-file": "credentials-file", "use-cache": "cache-dir",
        "use-path-request-style": "path-style", "default-acl": "acl", "logfile": "log", "stat-cache-expire": "ttl",
        // rclone
        "s3-requester-pays": "requester-pays", "s3-storage-class": "storage-class",
        "log-file": "log", "read-only": "ro", "dir-cache-time": "ttl", "file-perms": "file-mode",
        "dir-perms": "dir-mode",
        // mount-s3, geesefs, gcsfuse
        "endpoint-url": "endpoint", "force-path-style": "path-style", "cache": "cache-dir", "metadata-ttl": "ttl",
        "stat-cache-ttl": "ttl", "negative-metadata-ttl": "negative-ttl", "write-part-size": "part-size",
        "cold-min-size": "storage-class-min",
    ]

    /// What pailfs does in any case.
    private static let ignored: Set<String> = [
        // mount.fuse3(8)
        "big-writes", "large-read", "auto-cache", "intr", "async-read",
        "use-ino", "readdir-ino", "hard-remove", "no-remote-lock", "atomic-o-trunc",
        // rclone, goofys, gcsfuse, mount-s3, s3fs
        "args2env", "implicit-dirs", "allow-delete", "allow-overwrite", "compat-dir", "complement-stat",
        "enable-content-md5", "enable-noobj-cache", "daemon", "sigv4", "user-agent-prefix",
    ]

    /// What to write instead, by name.
    private static let remedies = Dictionary(
        groups.flatMap { group in group.names.map { ($0, group.remedy) } }, uniquingKeysWith: { first, _ in first })

    private static let groups: [(names: [String], remedy: String)] = [
        (
            ["direct-io", "kernel-cache", "noauto-cache"],
            "leave it out: the kernel keeps pages as long as the object is the same"
        ),
        (
            [
                "max-read", "max-write", "max-background", "congestion-threshold", "max-readahead", "max-threads",
                "splice-read", "splice-write", "splice-move", "clone-fd", "blkdev", "blksize", "remember",
                "noforget",
                "sync-read", "no-splice-read", "no-splice-write", "no-splice-move", "writeback-cache",
            ], "leave it out: pailfs sets it by itself"
        ),
        (["ssl-client-cert"], "write client-cert=FILE and client-key=FILE"),
        (["fsname", "subtype"], "leave it out: df(1) and mount(8) show the URL"),
        (["auto-unmount"], "leave it out: with restart=yes a new process takes the mount over"),
        (
            ["entry-timeout", "attr-timeout", "ac-attr-timeout", "poll-interval", "type-cache-ttl"],
            "write ttl=TIME"
        ),
        (["negative-timeout"], "write negative-ttl=TIME"),
        (["fuse-flag"], "write the flag as an option of its own"),
        // s3fs, ossfs, cosfs
        (["bucket"], "name the bucket in the URL, as in s3://bucket"),
        (["only-dir", "prefix", "servicepath"], "name the directory in the URL, as in s3://bucket/directory"),
        (["ensure-diskfree"], "write free-space=SIZE"),
        (["multipart-size", "multipart-copy-size", "vfs-write-chunk-size"], "write part-size=SIZE"),
        (
            ["parallel-count", "multireq-max", "max-flushers", "transfers", "max-parallel-parts"],
            "write uploads=NUMBER, downloads=NUMBER"
        ),
        (["readwrite-timeout", "http-timeout"], "write timeout=TIME"),
        (
            ["max-stat-cache-size", "stat-cache-max-size-mb", "stat-cache-capacity"],
            "leave it out: names have a share of cache-size"
        ),
        (["stat-cache-interval-expire"], "write ttl=TIME"),
        (["use-sse"], "write sse=AES256, or sse=aws:kms and sse-key=ID"),
        (["use-rrs"], "write storage-class=REDUCED_REDUNDANCY"),
        (["ahbe-conf"], "write header-for='*.ENDING: NAME: VALUE' for each line of the file"),
        (["dbglevel", "curldbg", "debug", "debug-fuse", "debug-s3", "verbose"], "write log-level=debug"),
        (
            ["no-check-certificate", "ssl-verify-hostname", "no-verify-ssl", "insecure"],
            "write ca-file=FILE with the authority of the server"
        ),
        (["sigv2"], "write signature=v1 for OSS; pailfs signs requests to S3 with version 4"),
        (
            ["iam-role", "ibm-iam-auth", "ecs", "ram-role", "no-sign-request", "anonymous", "public-bucket"],
            "leave it out: pailfs uses the credentials of the machine's role where there are no others, and without any it "
                + "sends unsigned requests"
        ),
        (
            [
                "nomultipart", "nocopyapi", "norenameapi", "notsup-compat-dir", "noxattr", "noxmlns", "nomixupload",
                "del-cache",
                "subdomain", "cheap", "no-implicit-dir", "use-wtf8", "mime",
            ],
            "leave it out: pailfs finds out what the server can, and stores what it needs in the bucket"
        ),
        (["mp-umask"], "write umask=BITS"),
        // rclone
        (["vfs-cache-max-size"], "write cache-size=SIZE"),
        (
            ["vfs-cache-max-age", "vfs-cache-poll-interval", "vfs-fast-fingerprint"],
            "leave it out: cache-size bounds the cache"
        ),
        (["vfs-cache-min-free-space"], "write free-space=SIZE"),
        (
            [
                "vfs-read-ahead", "vfs-read-chunk-size", "vfs-read-chunk-size-limit", "vfs-read-chunk-streams",
                "buffer-size",
            ],
            "write read-ahead=SIZE"
        ),
        (["vfs-write-back"], "write durable=local, with which uploads follow close(2)"),
        (["vfs-disk-space-total-size"], "write size=SIZE"),
        (
            ["config"],
            "set PAILFS_CONFIG to a file of options, pailfs.conf(5), and credentials-file to the credentials"
        ),
        (
            ["bwlimit", "limit-bytes-per-sec", "maximum-throughput-gbps"],
            "write upload-limit=RATE, download-limit=RATE"
        ),
        (["tpslimit", "limit-ops-per-sec"], "write request-limit=RATE"),
        (["memory-limit"], "write memory=SIZE"),
        (["key-file"], "write credentials-file=FILE"),
        (["metadata-cache-ttl", "max-cache-size"], "write ttl=TIME, or cache-size=SIZE"),
    ]
}
