import ObjectStorage

/// Every option of a mount, once: `-o`, long options, files, environment, defaults, help and manual page all come from here.
package enum OptionTable {
    package static let options: [MountOption] = bucket + view + machine + requests + log + fromMount

    /// What a mount can be told anew.
    package static var liveNames: [String] { options.filter(\.isLive).map(\.name) }

    private static let bucket: [MountOption] = [
        .url(
            "endpoint", \.endpoint, schemes: ["http", "https"],
            "Where the store is, for stores other than the provider's own: of Swift the URL to log in at, of CSSP the "
                + "container's, of Kodo where regions are asked for."),
        .text("region", "name", \.region, "The bucket's region. OSS and COS need it where no endpoint is given."),
        .text("profile", "name", \.profile, "Whose credentials to take from the provider's own files."),
        .flag("path-style", \.pathStyle, "Put the bucket's name into the path of URLs instead of the host name."),
        .choice(
            "signature", \.signature, default: .newest,
            "How requests are signed, for stores that know more than one way and may not know the newest (OSS)."),
        .text("storage-class", "name", \.storageClass, "Storage class of new objects, as the store spells it.")
            .only(for: .s3, .oss, .cos, .kodo).leftOutElsewhere,
        .text("acl", "name", \.acl, "Canned access control list of new objects, as the store spells it.")
            .only(for: .s3, .oss, .cos),
        .text(
            "sse", "name", \.encryption,
            "How the store encrypts new objects, as it spells that: AES256, aws:kms, KMS, cos/kms."
        ).only(for: .s3, .oss, .cos),
        .text("sse-key", "id", \.encryptionKey, "The key service's name of the key for sse; no key itself.")
            .only(for: .s3, .oss, .cos),
        .text("sse-context", "base64", \.encryptionContext, "Encryption context for sse with a key service.")
            .only(for: .s3, .cos),
        .path(
            "sse-customer-key-file", "file", \.customerKeyFile,
            "A file with the 32 bytes, raw or in base64, that the store encrypts with and does not keep. Without it "
                + "the objects cannot be read."
        ).only(for: .s3, .cos),
        .number(
            "traffic-limit", \.trafficLimit, in: 819_200...838_860_800,
            "Bits a second that one transfer may take."
        ).only(for: .oss, .cos),
        .url(
            "auth-url", \.authURL, schemes: ["http", "https"],
            "Where tokens are asked for, for stores of OpenStack Swift; without it that is endpoint."),
        .text(
            "download-domain", "host", \.downloadDomain,
            "The domain to read from, for stores with separate ones (Kodo)."),
        .texts(
            "cname-exclude", "host", \.nameExclusions,
            "An endpoint's domain that is the provider's own form and not a bucket's custom domain; may be given several "
                + "times."),
    ]

    private static let view: [MountOption] = [
        .flag("ro", \.readOnly, "Mount read-only."),
        .identity("uid", \.uid, "Owner of what has no stored owner. Default: the user that mounts."),
        .identity("gid", \.gid, "Group of what has no stored group. Default: the group of the user that mounts."),
        .mode("umask", \.umask, default: "022", "Permissions that what has no stored mode lacks, in octal."),
        .mode("file-mode", \.givenFileMode, "Permissions of files without a stored mode, in octal; umask is ignored."),
        .mode(
            "dir-mode", \.givenDirectoryMode,
            "Permissions of directories without a stored mode, in octal; umask is ignored."),
        .flag(
            "allow_other", \.allowOther,
            "Let other users in. Users other than root need user_allow_other in /etc/fuse.conf for it. Stored modes bind "
                + "them from the start with attrs=exact only."),
        .choice(
            "attrs", \.attributes, default: .listing,
            "What mode, owner and time are shown of an object, or a new version of one, that this machine has not read "
                + "yet: the mount's own mode and owner and the time of its upload, or those stored in its headers, at "
                + "one request each."),
        .choice(
            "symlinks", \.symlinks, default: .objects,
            "Keep symbolic links as objects name.rclonelink; or, where the target is a key, as links of the store's own, "
                + "which only OSS has; or as objects whose headers say so, as s3fs does, which asks for the headers of "
                + "every small object; or show all such objects as files and make none."),
        .choice(
            "names", \.names, default: .escaped,
            "Show keys that are no file names under escaped names, or hide them."),
        .duration(
            "ttl", \.ttl, in: .zero ... .seconds(365 * 86400), default: "1m",
            "How long what is known of the bucket is believed. 0 asks the store every time."
        ).live,
        .choice(
            "durable", \.durable, default: .remote,
            "Where a file is when its close has returned: in the bucket, or on the local disk and bound for the bucket."
        ),
        .choice(
            "conflict", \.conflict, default: .keep,
            "When somebody else has changed the object meanwhile: keep both, overwrite theirs, or leave ours to recover."
        ),
        .size("size", \.size, in: 1 << 20...1 << 60, otherwise: "1PiB", "Total size that df(1) shows."),
    ]

    private static let machine: [MountOption] = [
        .choice(
            "restart", \.restart, default: .yes,
            "Whether a new process goes on with the mount when the one that serves it dies."),
        .path(
            "cache-dir", "directory", \.cacheDirectory,
            "Where the caches of all buckets are. Default: $XDG_CACHE_HOME/pailfs or ~/.cache/pailfs."),
        .size(
            "cache-size", \.cacheSize, in: 64 << 20...1 << 50, default: "10GiB",
            "Most bytes on disk for cached blocks, files not yet stored and their databases, together."
        ).live,
        .size(
            "free-space", \.freeSpace, in: 0...1 << 50, default: "1GiB",
            "Bytes of the cache's disk that are left free whatever cache-size says."
        ).live,
        .size(
            "memory", \.memory, in: 32 << 20...1 << 40, default: "256MiB",
            "Most bytes of memory that hold file content, at most half of what a container may have."),
        .size(
            "read-ahead", \.readAhead, in: 0...16 << 30, default: "128MiB",
            "Bytes fetched ahead of a program that reads forward."),
    ]

    private static let requests: [MountOption] = [
        .size(
            "part-size", \.partSize, in: 5 << 20...5 << 30, default: "8MiB",
            "Size of the parts of an upload, unless the store wants larger ones; the parts of a very large file grow."),
        .number(
            "uploads", \.uploads, in: 1...256, default: "16",
            "Parts and files that are sent at the same time, of one file eight parts at most."
        ).live,
        .number("downloads", \.downloads, in: 1...256, default: "32", "Requests that fetch at the same time.").live,
        .number(
            "retries", \.retries, in: 0...100, default: "8",
            "How often a failed transfer is sent again at least; until timeout is over, more often."),
        .duration(
            "timeout", \.timeout, in: .seconds(1) ... .seconds(86400), default: "30s",
            """
            How long a store may be away until a call that waits for it fails; some tries come up to a quarter later. \
            A transfer may take longer while bytes move.
            """),
        .duration(
            "connect-timeout", \.connectTimeout, in: .milliseconds(100) ... .seconds(3600), default: "10s",
            "How long a name, a connection and its TLS may take together."),
        .duration(
            "transfer-timeout", \.transferTimeout, in: .seconds(1) ... .seconds(30 * 86400), otherwise: "never",
            "When a single transfer fails though bytes move."),
        .choice(
            "checksums", \.checksums, default: .verify,
            "Compare what is sent and received with the checksums that the store tells (CRC-64, MD5), or ignore them."),
        .choice(
            "redirects", \.redirects, default: .refuse,
            "Refuse answers that point to another host, or follow them to the provider's own hosts."
        ).only(for: .s3, .oss, .cos),
        .url(
            "doh", \.dnsOverHTTPS, schemes: ["https"],
            "Resolver to ask for names over HTTPS instead of the system's, such as https://dns.example/dns-query."),
        .url(
            "proxy", \.proxy, schemes: ["http", "https", "socks5"],
            "Proxy for all requests but those for the credentials of a machine or container. Default: http_proxy, "
                + "https_proxy and no_proxy of the environment, as curl(1) takes them."),
        .path("ca-file", "file", \.caFile, "Trusted certificates (PEM) instead of the system's."),
        .text("user-agent", "text", \.userAgent, "What requests say they come from. Default: pailfs and its version."),
        .text("user-agent-mark", "text", \.userAgentMark, "Added to what requests say they come from."),
        .flag("user-agent-system", \.userAgentSystem, "Add system and processor to what requests say they come from."),
        .header("header", \.headers, "A header for every request; may be given several times."),
    ]

    private static let log: [MountOption] = [
        .path(
            "log", "file", \.logFile,
            "Append the log to this file; deaths of the worker are told in the default place all the same. Default: syslog, "
                + "or stderr in the foreground."),
        .choice("log-level", \.logLevel, default: .info, "How much is logged.").live,
        .place(
            "metrics", \.metrics,
            "Where figures of the mount are served over HTTP in the text format of Prometheus: a path with a slash for a "
                + "socket, or a port for this machine alone such as 127.0.0.1:9464 or [::1]:9464."),
    ]

    private static let fromMount: [MountOption] =
        [.writable]
        + ["nodev", "nosuid", "noexec", "noatime", "nodiratime", "sync", "dirsync"].map(MountOption.kernelFlag)
        + [
            "auto", "noauto", "_netdev", "nofail", "user", "nouser", "users", "nousers", "owner", "group", "defaults",
            "dev", "suid", "exec", "async", "atime", "diratime", "relatime", "norelatime", "strictatime",
            "nostrictatime", "lazytime", "nolazytime", "default_permissions", "nonempty",
        ].map(MountOption.ignored)

    /// The option of a name. `-` and `_` are the same in names; `x-…` and `comment` are other programs' (mount(8)).
    static func option(named name: String) throws(SettingsError) -> MountOption {
        let wanted = spelling(name)
        if let option = options.first(where: { spelling($0.name) == wanted }) { return option }
        if wanted.hasPrefix("x-") || wanted == "comment" { return .ignored(name) }
        if secretWords.contains(where: wanted.contains) { throw .secret(name: name) }
        throw .unknown(name: name, nearest: nearest(to: wanted))
    }

    /// Parts of names under which others take credentials.
    private static let secretWords = ["secret", "access-key", "session-token", "password", "passwd", "credential"]

    static func spelling(_ name: String) -> String { String(name.map { $0 == "_" ? "-" : $0 }) }

    private static func nearest(to name: String) -> String? {
        let ranked = options.filter(\.isListed).map { ($0.name, editDistance(name, spelling($0.name))) }
        guard let best = ranked.min(by: { $0.1 < $1.1 }), best.1 <= max(1, name.count / 3) else { return nil }
        return best.0
    }

    /// Insertions, deletions and replacements that make one of the other (Levenshtein).
    private static func editDistance(_ left: String, _ right: String) -> Int {
        let right = Array(right)
        var row = Array(0...right.count)
        for (index, letter) in left.enumerated() {
            var previous = row[0]
            row[0] = index + 1
            for column in 0..<right.count {
                let replaced = previous + (letter == right[column] ? 0 : 1)
                previous = row[column + 1]
                row[column + 1] = min(replaced, row[column] + 1, previous + 1)
            }
        }
        return row[right.count]
    }
}

extension MountOption {
    /// `rw`, the opposite of `ro`: the last of them counts.
    fileprivate static var writable: MountOption { .flag("rw", \.readOnly, "", opposite: "ro") }
}
