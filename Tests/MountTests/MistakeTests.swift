import Foundation
import Testing

/// One way to get it wrong: a command line in bash, and words that its one sentence must have: the thing and the remedy.
///
/// `$P` is pailfs, `$O` the options of an ordinary mount, `$U` its URL; `refuse` and the like are in `Mistakes.shell`.
private struct Mistake: Sendable {
    let command: String
    let words: [String]
    /// Of the store, while the command runs.
    var fault: String?

    init(_ command: String, _ words: String..., fault: String? = nil) {
        (self.command, self.words, self.fault) = (command, words, fault)
    }
}

private enum Mistakes {
    /// What the command lines are written with. `mnt` mounts with more options, `nobody` does so as another user, and
    /// `dev` in a /dev of its own that has only what it is given.
    static let shell = """
        cd $T
        mnt() { exec $P mount ${2:-$U} "${3-$M}" -o "$O,$1"; }
        theirs() { mkdir -p theirs/mnt; chown -R 65534 theirs; chmod 755 $T; }
        nobody() { exec setpriv --reuid=65534 --clear-groups env HOME=$T/theirs $P mount $U ${2:-$T/theirs/mnt} \
            -o "endpoint=$E,path-style,cache-dir=$T/theirs/cache,log=$T/theirs/log,timeout=2${1-}"; }
        dev() { export -f mnt nobody; exec unshare --mount bash -euc "
            mkdir -p $T/dev; mount -t tmpfs -o mode=755 tmpfs $T/dev
            for node in null zero full random urandom; do : >$T/dev/\\$node; mount --bind /dev/\\$node $T/dev/\\$node; done
            $1
            mount --move $T/dev /dev; $2"; }
        tiny() { exec unshare --mount bash -euc "mkdir -p $T/tiny; mount -t tmpfs -o $1 tmpfs $T/tiny
            exec $P mount $U $M -o $O,cache-dir=$T/tiny"; }
        own() { mkdir -p home/.aws; printf '[default]\\naws_access_key_id = a\\naws_secret_access_key = b\\n' >home/.aws/credentials
            unset PAILFS_ACCESS_KEY_ID PAILFS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY; }
        config() { printf '%s\\n' "$@" >home/config; chmod ${MODE:-600} home/config; mnt ro; }
        """

    static let credentials = [
        Mistake("PAILFS_ACCESS_KEY_ID=who mnt ro", "does not accept the credentials", "check PAILFS_ACCESS_KEY_ID"),
        Mistake("PAILFS_SECRET_ACCESS_KEY=x mnt ro", "does not accept the credentials", "PAILFS_SECRET_ACCESS_KEY"),
        Mistake("PAILFS_SECRET_ACCESS_KEY= mnt ro", "PAILFS_SECRET_ACCESS_KEY is not", "set both"),
        Mistake(
            "own; rm -r home/.aws; export AWS_EC2_METADATA_DISABLED=true; mnt ro", "no credentials were found",
            "set PAILFS_ACCESS_KEY_ID"),
        Mistake("own; mnt profile=nope", "the profile nope", "check its name"),
        Mistake("own; mnt profile=nope oss://pail", "the profile nope is not in", "check its name"),
        Mistake("own; mnt ro,profile=nope cssp://pail", "CSSP has no profiles", "credentials-file"),
        Mistake("echo a:b >keys; chmod 644 keys; mnt credentials-file=$T/keys", "other users can read", "chmod 600"),
        Mistake("mnt credentials-file=$T/none", "credentials-file $T/none", "No such file", "check the option"),
        Mistake(
            "echo OSS_ACCESS_KEY_ID=a >keys; chmod 600 keys; mnt credentials-file=$T/keys",
            "no credentials for s3://pail",
            "write PAILFS_ACCESS_KEY_ID=id"),
        Mistake(
            "mnt credentials-file=$T/keys,profile=p", "credentials-file and the profile p are set", "set one of them"),
        Mistake("PAILFS_SESSION_TOKEN=x mnt ro", "InvalidToken", "renew", "PAILFS_SESSION_TOKEN"),
        Mistake("mnt ro", "have expired", "renew PAILFS_ACCESS_KEY_ID", fault: "kind=expired"),
        Mistake(
            "exec $P ls $U -o $O", "may not list the bucket pail", "allow it", fault: "op=ListObjectsV2,kind=status:403"
        ),
        Mistake("mnt secret-access-key=abcd", "there is no option secret-access-key", "in the environment"),
        Mistake("exec $P mount $U $M --session-token=abcd", "there is no option session-token", "in the environment"),
        Mistake("mnt ro s3://me:abcd@pail", "must not contain credentials", "in the environment"),
        Mistake("mnt endpoint=http://me:abcd@host", "endpoint cannot be", "write http://host:port"),
        Mistake("mnt sse-customer-key-file=$T/none", "sse-customer-key-file", "No such file", "correct that option"),
    ]

    static let store = [
        Mistake("mnt ro s3://no-such-bucket", "no-such-bucket does not exist", "check its name"),
        Mistake("mnt ro ftp://pail", "ftp://pail is not a bucket URL", "s3, oss, cos, kodo, cssp, swift"),
        Mistake("mnt ro s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/a", "cannot mount an ARN", "-s3alias"),
        Mistake("mnt ro s3://logs--euw1-az1--x-s3/a", "cannot mount directory buckets", "general purpose bucket"),
        Mistake("mnt ro pail", "pail is not a bucket URL", "write scheme://bucket"),
        Mistake("mnt ro s3:///key", "not a bucket URL", "a prefix but no bucket"),
        Mistake("mnt endpoint=http://127.0.0.1:9,timeout=1", "127.0.0.1:9", "check the option endpoint"),
        Mistake("mnt endpoint=http://no.invalid,timeout=1", "resolve host: no.invalid", "check the option endpoint"),
        Mistake("mnt endpoint=http://127.0.0.1:99999", "127.0.0.1:99999", "below 65536"),
        Mistake("mnt endpoint=127.0.0.1", "endpoint cannot be \"127.0.0.1\"", "write http://host:port"),
        Mistake(
            "mnt endpoint=https://${E#http://},timeout=1", "cannot be reached over TLS", "scheme of the option endpoint"
        ),
        Mistake(
            """
            openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 1 -subj /CN=x 2>openssl.log
            exec 3< <(exec openssl s_server -accept 127.0.0.1:0 -key key -cert cert -no_dhe </dev/zero 2>>openssl.log)
            server=$!
            while read -r -u 3 line; do case $line in ACCEPT*:*) port=${line##*:}; break;; esac; done
            status=0; $P mount $U $M -o "$O,endpoint=https://127.0.0.1:$port,timeout=2" || status=$?
            kill $server; exit $status
            """, "no certificate that this machine trusts", "ca-file"),
        Mistake(
            "AWS_CA_BUNDLE=$T/none.pem mnt ro", "the AWS_CA_BUNDLE", "none.pem cannot be read", "set AWS_CA_BUNDLE"),
        Mistake("mnt ca-file=$T/none.pem", "none.pem cannot be read", "set ca-file to a PEM file"),
        Mistake(
            "mnt proxy=http://127.0.0.1:9,timeout=1", "the proxy http://127.0.0.1:9 cannot be reached",
            "check the option proxy"),
        Mistake("mnt proxy=http://no.invalid:1,timeout=1", "resolve proxy: no.invalid", "check the option proxy"),
        Mistake(
            """
            timeout 20 $PYTHON -c 'if True:
                import socket
                listener = socket.create_server(("127.0.0.1", 0))
                print(listener.getsockname()[1], flush=True)
                while True:
                    peer, _ = listener.accept()
                    peer.recv(4096)
                    peer.sendall(b"HTTP/1.1 403 Forbidden\\r\\nContent-Length: 0\\r\\n\\r\\n")
                    peer.close()' >port 2>/dev/null &
            until test -s port; do sleep 0.1; done
            mnt endpoint=https://x.invalid,proxy=http://127.0.0.1:$(cat port),timeout=1
            """, "the proxy http://127.0.0.1:", "refuses the request", "check the option proxy"),
        Mistake("mnt endpoint=http://x.invalid,doh=https://127.0.0.1:9/q,timeout=1", "x.invalid", "endpoint, doh"),
        Mistake("exec $P ls s3://none -o $O", "none does not exist", "check its name"),
        Mistake("exec $P stat $U/none -o $O", "no object of this key", "check its name"),
        Mistake("exec $P acl get kodo://pail/x -o endpoint=$K", "does not support access control lists"),
        Mistake(
            """
            printf x >x; $PYTHON $HELPER put frozen x; $P class $U/frozen GLACIER -o $O
            exec $P cp $U/frozen $U/copy -o $O
            """, "storage class", "pailfs restore URL"),
    ]

    static let options = [
        Mistake("mnt colour=blue", "no option colour", "pailfs help mount"),
        Mistake("mnt cachesize=1G", "no option cachesize", "did you mean cache-size?"),
        Mistake("mnt ttl=soon", "ttl cannot be \"soon\"", "write a time such as 90, 30s or 5m"),
        Mistake("mnt ttl", "ttl needs a value", "write ttl=time"),
        Mistake("mnt memory=1K", "memory cannot be \"1K\"", "from 32MiB"),
        Mistake("PAILFS_CACHE_SIZ=1G mnt ro", "no option PAILFS_CACHE_SIZ", "did you mean PAILFS_CACHE_SIZE?"),
        Mistake("PAILFS_TTL=soon mnt ro", "PAILFS_TTL cannot be \"soon\"", "write a time"),
        Mistake("config '[s3://]' 'ttl = 5' 'colour = 1'", "home/config:3:", "no option colour"),
        Mistake("config '[s3:/x]'", "home/config:1:", "write scheme://bucket"),
        Mistake("config 'a line'", "home/config:1:", "is not of the form name = value"),
        Mistake("mnt acl=private kodo://pail", "option acl is for S3, OSS and COS, not for Kodo", "leave it out"),
        Mistake("PAILFS_TRAFFIC_LIMIT=819200 mnt ro cssp://pail", "PAILFS_TRAFFIC_LIMIT is for OSS and COS", "CSSP"),
        Mistake(
            "printf 'sse = AES256\\n' >home/config; chmod 600 home/config; mnt ro swift://pail", "home/config:1:",
            "option sse is for S3, OSS and COS, not for Swift", "below [s3://]"),
        Mistake("exec $P ls swift://pail -o $O,storage-class=COLD", "option storage-class is for", "not for Swift"),
        Mistake("exec $P ls $U -o $O -o 'header-for=*.gz: gzip'", "the option header-for cannot be", "write a pattern"),
        Mistake(
            "exec $P ls $U -o $O -o 'header-for=*: x-amz-meta-mtime: 1'", "cannot set x-amz-meta-mtime", "leave it out"),
        Mistake("PAILFS_CONFIG=$T/none mnt ro", "$T/none", "PAILFS_CONFIG names it"),
        Mistake("MODE=666 config 'ttl = 5'", "home/config: other users can write to it", "chmod go-w"),
        Mistake("mnt metrics=192.168.0.1:80", "metrics cannot be", "127.0.0.1:9464"),
        Mistake("mnt metrics=${E#http://}", "Address already in use", "set metrics to another place"),
        Mistake("mnt log=$T/none/log", "none/log cannot be written", "set log to another file"),
    ]

    static let places = [
        Mistake("mnt ro $U none", "none does not exist", "mkdir"),
        Mistake("mnt ro $U ''", "empty string", "name a directory"),
        Mistake(": >file; mnt ro $U file", "file is not a directory", "name a directory"),
        Mistake("mnt ro $U /proc", "/proc is already a mountpoint", "unmount it first"),
        Mistake(": >file; mnt cache-dir=$T/file", "$T/file/", "set another cache-dir"),
        Mistake(
            "mnt cache-dir=$M/not/made", "$M/not/made would be below the mountpoint",
            "set cache-dir to a directory elsewhere"),
        Mistake("mnt cache-dir=$M", "below the mountpoint", "set cache-dir to a directory elsewhere"),
        Mistake("exec $P unmount $M", "nothing is mounted on $M", "findmnt"),
        Mistake("exec $P unmount $T/none", "$T/none does not exist", "pailfs status"),
        Mistake("exec $P restart $T/none", "$T/none does not exist", "pailfs status"),
        Mistake(
            """
            if [ $UID = 0 ]; then theirs; M=$T/theirs/mnt as="setpriv --reuid=65534 --clear-groups"; fi
            $as env -u XDG_CACHE_HOME -u XDG_STATE_HOME HOME=$T/nohome $P mount $U $M -o endpoint=$E,path-style && exit 0
            test ! -e nohome || exit 0; exit 1
            """,
            "home directory $T/nohome does not exist", "set cache-dir"),
        Mistake("exec $P restart $M", "$M is not a mount of pailfs", "findmnt"),
        Mistake("exec $P flush $T", "$T is not in a mount of pailfs", "pailfs status"),
        Mistake("exec $S $T/store", "another process serves $T/store"),
        Mistake("exec $S $T/other --listen 0.0.0.0:0", "reachable from other machines", "--allow-remote"),
    ]

    static let commands = [
        Mistake("exec $P stauts", "no command stauts", "did you mean status?"),
        Mistake("exec $P moutn $U $M", "no command moutn", "did you mean mount?"),
        Mistake("exec $P help statu", "no command statu", "did you mean status?"),
        Mistake("exec $P cache inf", "no command inf of pailfs cache", "did you mean info?"),
        Mistake("exec $P frobnicate", "no command frobnicate", "pailfs help"),
    ]

    static let machine = [
        Mistake("tiny ro", "tiny/", "Read-only file system", "set another cache-dir"),
        Mistake("tiny size=64k", "disk is full", "make room on its disk", "another cache-dir"),
        Mistake(
            """
            exec 3>&2 2>/dev/null; $P mount $U $M -o "$O,cache-dir=$T/foreign"; $P unmount $M; exec 2>&3
            chown 65534 foreign/*; mnt cache-dir=$T/foreign
            """, "belongs to user 65534", "mount as that user"),
        Mistake("dev : \"exec $P mount $U $M -o $O\"", "/dev/fuse is missing", "modprobe fuse"),
        Mistake("theirs; dev 'mknod -m 600 $T/dev/fuse c 10 229' nobody", "may not open /dev/fuse", "ask root"),
        Mistake(
            "theirs; dev 'mknod -m 666 $T/dev/fuse c 10 229; mount --bind /dev/null $(command -v fusermount3)' nobody",
            "fusermount3 is missing", "install the package fuse3"),
        Mistake(
            "theirs; dev 'mknod -m 666 $T/dev/fuse c 10 229; mount --bind /dev/null /etc/fuse.conf' 'nobody ,allow_other'",
            "user_allow_other", "/etc/fuse.conf"),
        Mistake(
            "theirs; mkdir ours; dev 'mknod -m 666 $T/dev/fuse c 10 229' \"nobody '' $T/ours\"", "may not write to",
            "a directory of your own"),
    ]
}

extension RealMountsAlone {
    /// What cannot be done is refused with one sentence that names the thing and the remedy, and leaves nothing.
    @Suite struct EveryMistake {
        @Test(.timeLimit(.minutes(5)))
        func isNamedInOneSentenceWithItsRemedy() async throws {
            try await withStore { world, store in
                world.expectsErrorsInLog = true
                let setup = """
                    P=\(Programs.pailfs) S=\(Programs.pailstore) U=\(world.bucket.url) E=\(store.endpoint)
                    K=\(store.endpoints["kodo"] ?? "") O='\(world.options([]))' HELPER=\(Programs.helper("bucket.py"))
                    export P U E O T M
                    """
                var rows =
                    Mistakes.credentials + Mistakes.store + Mistakes.options + Mistakes.places + Mistakes.commands
                if Machine.isRoot { rows += Mistakes.machine }
                #expect(rows.count >= 30)
                for row in rows {
                    if let fault = row.fault { try await store.setFaults(fault) }
                    let outcome = try await world.attempt("\(setup)\n\(Mistakes.shell)\n\(row.command)")
                    if row.fault != nil { try await store.setFaults() }
                    let told = Comment(rawValue: "\(row.command): \(outcome)")
                    #expect(outcome.status != 0 && outcome.status < 126 && !outcome.missedDeadline, told)
                    #expect(outcome.errors.split(separator: "\n").count == 1, told)
                    #expect(outcome.errors.hasPrefix("pailfs: ") || outcome.errors.hasPrefix("pailstore: "), told)
                    for word in row.words {
                        let word = word.replacing("$T", with: world.scratch.directory)
                            .replacing("$M", with: world.mountpoint)
                        #expect(outcome.errors.contains(word), "names \(word): \(told)")
                    }
                    for secret in [Store.secretKey, "abcd"] { #expect(!outcome.errors.contains(secret), told) }
                    #expect(!world.isMounted, told)
                    _ = try await world.attempt(
                        ": >$T/home/config; chmod 644 $T/home/config; rm -rf $T/home/.aws $T/theirs")
                }
                #expect(world.scratch.processes(running: Programs.pailfs).isEmpty, "nothing is left running")
            }
        }
    }
}
