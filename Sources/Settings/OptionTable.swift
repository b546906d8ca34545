import ObjectStorage

/// Every option of a mount, once: `-o`, long options, files, environment, defaults, help and manual page all come from here.
package enum OptionTable {
    package static let options: [MountOption] = groups.flatMap(\.options) + fromMount

    /// The groups in help and manual, in their order.
    static let groups: [(title: String, options: [MountOption])] = [
        ("Basic", basic), ("Cache", cache), ("Durability", durability), ("Identity", identity), ("Network", network),
        ("One store only", oneStore),
    ]

    /// The names of the options that can change while the bucket is mounted.
    package static var liveNames: [String] { options.filter(\.isLive).map(\.name) }

    private static let basic: [MountOption] = [
        .url(
            "endpoint", \.endpoint, schemes: ["http", "https"],
            "URL of the server, for stores other than the provider's own. For Swift it is the login URL, for CSSP "
                + "the URL of the container, for Kodo the server that answers region queries."),
        .text("region", "name", \.region, "Region of the bucket. OSS and COS need it unless endpoint is given."),
        .text("profile", "name", \.profile, "Profile to read from the credentials files of the provider's tools."),
        .path(
            "credentials-file", "file", \.credentialsFile,
            "File with the credentials, of the same form for every store: lines such as PAILFS_ACCESS_KEY_ID=id and "
                + "PAILFS_SECRET_ACCESS_KEY=secret, or one line id:secret. No other user may read it. Nothing that the "
                + "environment says of credentials counts then."),
        .flag("path-style", \.pathStyle, "Put the bucket name into the path of URLs instead of the host name."),
        .flag("ro", \.readOnly, "Mount read-only."),
        .moment(
            "as-of", \.asOf,
            "Show the bucket read-only as it was at this time, such as 2026-11-30T12:00:00Z, or in seconds since 1970. The "
                + "bucket must have kept versions since then. Each directory in a listing costs a request more."
        ).only(for: .s3, .oss, .cos),
        .flag(
            "allow_other", \.allowOther,
            "Allow other users to use the mount. A user other than root needs user_allow_other in /etc/fuse.conf. "
                + "With attrs=listing, the stored mode of a file restricts other users only after this machine has "
                + "read the file."),
        .rootOnly(
            "allow_root",
            "Allow root to use the mount of another user, as allow_other does. Other users cannot open anything, but may see "
                + "names and attributes that the kernel has. It counts where both are given."),
        .duration(
            "ttl", \.ttl, in: .zero ... .seconds(365 * 86400), default: "1m",
            "How long pailfs uses what it knows of the bucket before it checks again. 0 checks every time."
        ).live,
        .duration(
            "negative-ttl", \.negativeTTL, in: .zero ... .seconds(365 * 86400), otherwise: "as ttl",
            "How long pailfs uses what it knows of names that do not exist, at most ttl. 0 asks the store each time."
        ).live,
        .choice(
            "names", \.names, default: .escaped,
            "Whether keys that are no valid path appear under escaped names or are hidden."),
        .pattern(
            "exclude", isIncluded: false,
            "Names that the mount hides and does not let programs make; may be given several times. * stands for any text "
                + "without a slash, ** for any text, ? and [a-z] for one character. A pattern with a slash is for paths from "
                + "the top of the mount, others are for names anywhere; a slash at the end is for directories only. Of "
                + "include and exclude the first pattern that fits counts. What is below a hidden directory is hidden as "
                + "well, and so are conflict files that a pattern fits."),
        .pattern(
            "include", isIncluded: true,
            "Names that the mount shows although a later exclude fits them. Without any exclude, files that no include fits "
                + "are hidden. include=*/ shows directories that exclude=* would hide."),
        .headerRule(
            "header-for", \.headerRules,
            "Header that a file gets for its name when it is stored; may be given several times. The pattern is of the form of "
                + "exclude, with a backslash before each colon, and for files only. The header is one that stores keep: "
                + "Content-Type, Content-Encoding, Cache-Control, Content-Disposition, Content-Language, Expires or "
                + "x-amz-meta-NAME, whatever the store. Of those that give the same header the first counts, and it comes "
                + "before the system's table of types. Headers that a file has stay."),
        .size(
            "max-size", \.largestFile, in: 1...1 << 50, otherwise: "the store's limit",
            "Length that no program can make a file exceed (EFBIG). Longer objects in the bucket are read as usual."),
        .choice(
            "buckets", \.buckets, default: .fixed,
            "In the mount of an account: with change, mkdir(2) at the top creates a bucket and rmdir(2) deletes an "
                + "empty one, whose name another account may take from then on. rm -r on a bucket ends with that."),
        .choice(
            "symlinks", \.symlinks, default: .objects,
            "How symbolic links are stored. With objects, as objects NAME.rclonelink; with native, as OSS's own "
                + "links where the target allows it; with metadata, as objects with a header, as s3fs does, which "
                + "costs a request for the headers of every small object; with off, links cannot be made and their "
                + "objects appear as files."),
        .size("size", \.size, in: 1 << 20...1 << 60, otherwise: "1PiB", "Total size that df(1) shows."),
        .path(
            "log", "file", \.logFile,
            "File to append the log to. When it is renamed or deleted, as logrotate(8) does, messages go to a new one within "
                + "a second. Messages about a worker process that died go to the default place in any case. Default: "
                + "syslog, or stderr in the foreground."),
        .choice(
            "log-format", \.logFormat, default: .text,
            "Lines of text, or a JSON object in each line, with time, level, message and the fields of the event."),
        .choice(
            "log-level", \.logLevel, default: .info,
            "Level of the least severe messages to log; with trace each request of the kernel has a line."
        ).live,
        .place(
            "metrics", \.metrics,
            "Where the mount serves its figures over HTTP in the text format of Prometheus. A path with a slash is "
                + "a socket; 127.0.0.1:9464 or [::1]:9464 is a port for this machine alone; all:9464 is one for every machine, "
                + "which needs no password."),
    ]

    private static let cache: [MountOption] = [
        .path(
            "cache-dir", "directory", \.cacheDirectory,
            "Directory that holds the caches of all buckets; it may be deleted at any time. Default: "
                + "$XDG_CACHE_HOME/pailfs or ~/.cache/pailfs, for root /var/cache/pailfs."),
        .path(
            "state-dir", "directory", \.stateDirectory,
            "Directory that holds the journals of all buckets and the files not stored yet. Default: that of "
                + "cache-dir where this is set, else $XDG_STATE_HOME/pailfs or ~/.local/state/pailfs, for root "
                + "/var/lib/pailfs."),
        .size(
            "cache-size", \.cacheSize, in: 64 << 20...1 << 50, default: "10GiB",
            "Largest size on disk of cached blocks, files not yet stored and their databases, together."
        ).live,
        .size(
            "free-space", \.freeSpace, in: 0...1 << 50, default: "1GiB",
            "Bytes that pailfs leaves free on the disk of either directory, whatever cache-size allows."
        ).live,
        .size(
            "memory", \.memory, in: 32 << 20...1 << 40, default: "256MiB",
            "Largest amount of memory for file content, at most half of a container's limit."),
        .size(
            "read-ahead", \.readAhead, in: 0...16 << 30, default: "128MiB",
            "Bytes to fetch ahead of a program that reads sequentially."),
    ]

    private static let durability: [MountOption] = [
        .choice(
            "durable", \.durable, default: .remote,
            "When close(2) returns. With remote, when the bucket has the file; with local, when the local disk has "
                + "it, and the upload follows."
        ),
        .choice(
            "conflict", \.conflict, default: .keep,
            "What happens to a file that another host has changed meanwhile. With keep, both versions are stored; "
                + "with overwrite, the other version is replaced; with fail, this host's version waits in pailfs "
                + "recover."
        ),
        .choice(
            "restart", \.restart, default: .yes,
            "Whether a new process takes over the mount when the process that serves it dies."),
        .keeper(
            "keeper", \.keeper,
            "What keeps the mount when all its processes have ended: a path with a slash, the socket of pailfs keep, or "
                + "systemd. Programs then wait until pailfs mount with the same options takes the mount back. With it, "
                + "SIGTERM and SIGHUP end the processes and not the mount."),
        .duration(
            "patience", \.patience, in: .seconds(1) ... .seconds(86400), default: "10m",
            "How long pailfs keep has a mount that no process serves. Then programs get errors, and what is not stored "
                + "stays in state-dir. It means nothing with keeper=systemd."),
        .duration(
            "term-wait", \.termWait, in: .zero ... .seconds(86400), default: "1m",
            "How long a mount that is in use goes on after SIGTERM. It ends when programs have closed their files and "
                + "left its directories, or when this time is over. A second SIGTERM, a second later or more, ends "
                + "it at once, as Ctrl-C does."),
    ]

    private static let identity: [MountOption] = [
        .choice(
            "attrs", \.attributes, default: .listing,
            "Which mode, owner and time a file shows before this machine has read its object. With listing, the "
                + "mode and owner of the mount and the time of the upload; with exact, the stored ones, at one "
                + "request per object."),
        .identity(
            "uid", \.uid,
            "Owner of files and directories without a stored owner. Default: the user that mounts."),
        .identity(
            "gid", \.gid,
            "Group of files and directories without a stored group. Default: the group of the user that mounts."),
        .mode(
            "umask", \.umask, default: "022",
            "Permission bits, in octal, that files and directories without a stored mode lack."),
        .mode(
            "file-mode", \.givenFileMode,
            "Permission bits, in octal, of files without a stored mode; umask does not apply."),
        .mode(
            "dir-mode", \.givenDirectoryMode,
            "Permission bits, in octal, of directories without a stored mode; umask does not apply."),
    ]

    private static let network: [MountOption] = [
        .duration(
            "timeout", \.timeout, in: .seconds(1) ... .seconds(86400), default: "30s",
            "How long a call waits for a store that does not answer before it fails; the last retry may end a "
                + "quarter later. A transfer may take longer while bytes move."),
        .duration(
            "connect-timeout", \.connectTimeout, in: .milliseconds(100) ... .seconds(3600), default: "10s",
            "Time limit for name resolution, connection and TLS handshake together."),
        .duration(
            "transfer-timeout", \.transferTimeout, in: .seconds(1) ... .seconds(30 * 86400), otherwise: "never",
            "Time limit for one transfer, even while bytes move."),
        .number(
            "retries", \.retries, in: 0...100, default: "8",
            "Least number of retries of a failed transfer. Until timeout has passed there may be more."),
        .number(
            "uploads", \.uploads, in: 1...256, default: "16",
            "Parts and files uploaded at the same time; at most eight parts of one file."
        ).live,
        .number(
            "downloads", \.downloads, in: 1...256, default: "32",
            "Download requests in flight at the same time."
        ).live,
        .rate(
            "upload-limit", \.uploadLimit, .bytes,
            "Most bytes to send to the store a second, all uploads together; off for no limit. With times of day, each "
                + "rate holds from its time on: 512KiB@08:00/off@19:30."
        ).live,
        .rate(
            "download-limit", \.downloadLimit, .bytes,
            "Most bytes to receive from the store a second, in the same form. Of the transfers that wait, the one that "
                + "has moved the fewest bytes continues first."
        ).live,
        .rate(
            "request-limit", \.requestLimit, .requests,
            "Most requests to send to the store a second, in the same form."
        ).live,
        .size(
            "part-size", \.partSize, in: 100 << 10...5 << 30, default: "8MiB",
            "Size of the parts of an upload. Parts are larger where the store requires it, and for very large "
                + "files."
        ).live,
        .choice(
            "checksums", \.checksums, default: .verify,
            "Whether pailfs compares the bytes it sends and receives with the checksums that the store returns "
                + "(CRC-64, MD5)."),
        .choice(
            "redirects", \.redirects, default: .refuse,
            "Whether pailfs follows redirects to another host. With follow, to the provider's own hosts only."
        ).only(for: .s3, .oss, .cos),
        .url(
            "proxy", \.proxy, schemes: ["http", "https", "socks5"],
            "Proxy for all requests except those for the credentials of a machine or container. Default: "
                + "http_proxy, https_proxy and no_proxy of the environment, as curl(1) reads them."),
        .url(
            "doh", \.dnsOverHTTPS, schemes: ["https"],
            "Resolver to query for names over HTTPS instead of the system's, such as https://dns.example/dns-query."),
        .path("ca-file", "file", \.caFile, "File of trusted certificates (PEM) to use instead of the system's."),
        .path(
            "client-cert", "file", \.clientCertificate,
            "File with the certificate (PEM) of this machine, for servers that ask for one."),
        .path(
            "client-key", "file", \.clientKey,
            "File with the key (PEM) of client-cert, where that file does not have it."
        ).with("client-cert"),
        .header("header", \.headers, "Header to add to every request; may be given several times."),
        .text("user-agent", "text", \.userAgent, "User-Agent header of requests. Default: pailfs and its version."),
        .text("user-agent-mark", "text", \.userAgentMark, "Text to append to the User-Agent header."),
        .flag("user-agent-system", \.userAgentSystem, "Append system and processor to the User-Agent header."),
    ]

    private static let oneStore: [MountOption] = [
        .choice(
            "signature", \.signature, default: .newest,
            "Version of the request signature, for OSS servers that do not accept the newest."),
        .text("storage-class", "name", \.storageClass, "Storage class of new objects, spelled as the store spells it.")
            .only(for: .s3, .oss, .cos, .kodo).leftOutElsewhere,
        .size(
            "storage-class-min", \.smallestOfClass, in: 0...5 << 30, default: "0",
            "Length of the smallest object that gets storage-class, at most part-size. Smaller ones get the class of the "
                + "bucket: the colder classes have a length below which they cost more."
        ).only(for: .s3, .oss, .cos, .kodo).leftOutElsewhere,
        .text(
            "acl", "name", \.acl,
            "Canned access control list of new objects; keep: a changed object keeps its list. "
                + "Lists are spelled as the store spells them. "
                + "keep costs a request more for each write, rename and change of attributes. "
                + "It is the default on OSS and COS; on S3 a changed object is private without it."
        ).only(for: .s3, .oss, .cos),
        .text(
            "sse", "name", \.encryption,
            "Server-side encryption of new objects, spelled as the store spells it: AES256, aws:kms, KMS, cos/kms."
        ).only(for: .s3, .oss, .cos),
        .text(
            "sse-key", "id", \.encryptionKey,
            "Name, in the key service, of the key for sse. It is not the key itself."
        )
        .only(for: .s3, .oss, .cos),
        .text("sse-context", "base64", \.encryptionContext, "Encryption context for sse with a key service.")
            .only(for: .s3, .cos),
        .path(
            "sse-customer-key-file", "file", \.customerKeyFile,
            "File with the 32 bytes of an encryption key, raw or in base64. The store encrypts with the key and "
                + "does not keep it. Without the key the objects cannot be read."
        ).only(for: .s3, .cos),
        .number(
            "traffic-limit", \.trafficLimit, in: 819_200...838_860_800,
            "Bits per second that one transfer may use."
        ).only(for: .oss, .cos),
        .flag(
            "requester-pays", \.requesterPays,
            "Agree with every request, and in the URLs of presign, to pay for it, as buckets with requester pays demand."
        ).only(for: .s3, .oss),
        .text(
            "callback-url", "url", \.callbackURL,
            "URL of a server that the store sends a request to for each file that it has stored; several with semicolons "
                + "are tried in their order. A file whose callback fails is stored, and close succeeds: a warning in the log "
                + "and user.pailfs.lasterror have the reason."
        ).only(for: .oss, .kodo),
        .text(
            "callback-body", "text", \.callbackBody,
            "Body of that request, with the store's variables: for OSS 'key=${object}&size=${size}&user=${x:user}', for Kodo "
                + "'key=$(key)&size=$(fsize)&user=$(x:user)'."
        ).only(for: .oss, .kodo).with("callback-url"),
        .choice(
            "callback-type", \.callbackType, default: .form,
            "Content type of that body: form for application/x-www-form-urlencoded, json for application/json."
        ).only(for: .oss, .kodo).with("callback-url"),
        .text(
            "callback-host", "host", \.callbackHost, "Host header of that request, where it is not the host of the URL."
        )
        .only(for: .oss, .kodo).with("callback-url"),
        .variable(
            "callback-var", \.callbackVariables,
            "Variable for callback-body, where its name has x: in front; may be given several times."
        ).only(for: .oss, .kodo).with("callback-url"),
        .text(
            "mime-limit", "types", \.typeLimit,
            "Content types that Kodo takes, such as 'image/*;text/plain', or with ! in front those that it does not take. "
                + "Closing another file is EACCES."
        ).only(for: .kodo),
        .flag(
            "detect-mime", \.detectsType,
            "Let Kodo find out the content type of each file that it stores. A type that a program has set is lost when "
                + "the file changes."
        ).only(for: .kodo),
        .flag(
            "insert-only", \.insertsOnly,
            "Let Kodo replace no object by an upload: closing a file that was changed is EACCES. Renames "
                + "and copies within the bucket replace as usual."
        ).only(for: .kodo),
        .url(
            "auth-url", \.authURL, schemes: ["http", "https"],
            "Login URL of OpenStack Swift, where it is not endpoint."),
        .text(
            "download-domain", "host", \.downloadDomain,
            "Domain to read objects from, for Kodo."),
        .texts(
            "cname-exclude", "host", \.nameExclusions,
            "Domain of an endpoint that is the provider's own and not a bucket's custom domain; may be given "
                + "several times."),
    ]

    private static let fromMount: [MountOption] =
        [.writable]
        + ["nodev", "nosuid", "noexec", "noatime", "nodiratime", "sync", "dirsync"].map(MountOption.kernelFlag)
        + [
            "auto", "noauto", "_netdev", "nofail", "user", "nouser", "users", "nousers", "owner", "group", "defaults",
            "dev", "suid", "exec", "async", "atime", "diratime", "relatime", "norelatime", "strictatime",
            "nostrictatime", "lazytime", "nolazytime", "default_permissions", "nonempty",
        ].map(MountOption.ignored)

    /// The option with a name. `-` and `_` are the same in names; `x-…` and `comment` belong to other programs (mount(8)).
    static func option(named name: String) throws(SettingsError) -> MountOption {
        let wanted = spelling(name)
        if let option = options.first(where: { spelling($0.name) == wanted }) { return option }
        if wanted.hasPrefix("x-") || wanted == "comment" { return .ignored(name) }
        if let option = try ForeignOptions.option(named: name, wanted) { return option }
        if secretWords.contains(where: wanted.contains) { throw .secret(name: name) }
        throw .unknown(name: name, nearest: nearest(to: wanted))
    }

    /// Parts of the names that other programs use for credentials.
    private static let secretWords = ["secret", "access-key", "session-token", "password", "passwd", "credential"]

    static func spelling(_ name: String) -> String { String(name.map { $0 == "_" ? "-" : $0 }) }

    private static func nearest(to name: String) -> String? {
        let names = options.filter(\.isListed).map(\.name)
        guard let found = NearestName.to(name, among: names.map(spelling)) else { return nil }
        return names.first { spelling($0) == found }
    }
}

extension MountOption {
    /// `rw`, the opposite of `ro`: the last one wins.
    fileprivate static var writable: MountOption { .flag("rw", \.readOnly, "", opposite: "ro") }
}
