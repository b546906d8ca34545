import Settings
import Testing

struct OptionTests {
    @Test func defaultsAreTheDocumentedOnes() throws {
        let settings = MountSettings()
        #expect(settings.ttl == .seconds(60))
        #expect(settings.cacheSize == 10 << 30)
        #expect(settings.fileMode == 0o644 && settings.directoryMode == 0o755)
        #expect(settings.partSize == 8 << 20 && settings.readAhead == 128 << 20 && settings.memory == 256 << 20)
        #expect(!settings.readOnly && !settings.allowOther && settings.endpoint == nil)
        #expect(settings.kernelFlags.isEmpty)
    }

    @Test func listsSetValuesAndTheLastOneCounts() throws {
        let settings = try MountSettings(
            optionLists: [
                "endpoint=http://127.0.0.1:9000,region=eu-1,path-style,ro", "ttl=5m,ttl=90,rw,uid=0,gid=100,umask=077",
                "attrs=exact,cache_size=2G,allow-other,conflict=fail,names=raw,symlinks=off,size=5TiB",
            ], environment: [:])
        #expect(settings.endpoint == "http://127.0.0.1:9000")
        #expect(settings.region == "eu-1" && settings.pathStyle && !settings.readOnly)
        #expect(settings.ttl == .seconds(90) && settings.uid == 0 && settings.gid == 100)
        #expect(settings.fileMode == 0o600 && settings.directoryMode == 0o700)
        #expect(settings.attributes == .exact && settings.cacheSize == 2 << 30 && settings.allowOther)
        #expect(settings.conflict == .fail && settings.names == .raw && settings.symlinks == .off)
        #expect(settings.size == 5 << 40)
    }

    @Test func givenModesStandWhateverTheUmask() throws {
        let settings = try MountSettings(optionLists: ["file-mode=664,dir-mode=0775,umask=077"], environment: [:])
        #expect(settings.fileMode == 0o664 && settings.directoryMode == 0o775)
    }

    @Test func environmentComesBeforeTheCommandLine() throws {
        let environment = [
            "PAILFS_CACHE_SIZE": "1GiB", "PAILFS_TTL": "3", "PAILFS_ALLOW_OTHER": "yes", "PAILFS_RO": "0",
            "PAILFS_REGION": "", "PAILFS_SECRET_ACCESS_KEY": "x",
        ]
        let settings = try MountSettings(optionLists: ["ttl=4"], environment: environment)
        #expect(settings.cacheSize == 1 << 30 && settings.ttl == .seconds(4) && settings.allowOther)
        #expect(!settings.readOnly && settings.region == nil)
        #expect(
            throws: SettingsError.badValue(
                name: "PAILFS_TTL", value: "soon", expected: "a time such as 90, 30s or 5m, from 0s to 365d")
        ) { try MountSettings(optionLists: [], environment: ["PAILFS_TTL": "soon"]) }
    }

    @Test func misspeltVariablesAreRefusedLikeOptions() throws {
        for (name, nearest) in [
            ("PAILFS_CACHE_SIZ", "PAILFS_CACHE_SIZE"), ("PAILFS_TLT", "PAILFS_TTL"),
            ("PAILFS_ACESS_KEY_ID", "PAILFS_ACCESS_KEY_ID"),
        ] {
            #expect(throws: SettingsError.unknown(name: name, nearest: nearest)) {
                try OptionSources(for: nil, optionLists: [], environment: [name: "1", "PAILFS_CONFIG": ""])
            }
        }
        // Other programs' own.
        let others = ["PAILFS_BIN": "1", "PAILFS_TEST_PYTHON": "1", "PAILFS_RW": "1", "PAILFS_CONFIG": ""]
        #expect(try OptionSources(for: nil, optionLists: [], environment: others).options.isEmpty)
    }

    @Test(arguments: [("moutn", "mount"), ("stauts", "status"), ("umont", "umount"), ("zzz", nil)])
    func theNearestNameIsOneOfFewMistakes(_ word: String, _ nearest: String?) {
        #expect(NearestName.to(word, among: ["mount", "umount", "status", "stat"]) == nearest)
    }

    @Test func commasInValuesAreKeptByBackslashes() throws {
        let settings = try MountSettings(
            optionLists: [#"header=X-List: a\,b,header=X-Two:c,user-agent=back\\slash,cache-dir=/a\b"#],
            environment: [:])
        #expect(settings.headers == [.init(name: "X-List", value: "a,b"), .init(name: "X-Two", value: "c")])
        #expect(settings.userAgent == #"back\slash"# && settings.cacheDirectory == #"/a\b"#)
    }

    @Test func whatMountPassesAlongIsUnderstood() throws {
        let noise = "rw,noauto,_netdev,nofail,user,users,defaults,dev,suid,exec,atime,relatime,x-systemd.automount,"
        let settings = try MountSettings(
            optionLists: [noise + "x-gvfs-show=1,comment=hello,nosuid,nodev,noexec,noatime,nosuid"], environment: [:])
        #expect(settings.kernelFlags == ["nosuid", "nodev", "noexec", "noatime"])
        #expect(!settings.readOnly)
    }

    @Test func longOptionsBecomeLists() throws {
        let arguments = [
            "s3://b", "/mnt", "--cache-size", "1G", "--ro", "--allow-other", "--header=X: a,b", "-o", "ttl=1", "-f",
            "--foreground", "--", "--ro",
        ]
        #expect(
            try MountSettings.replacingLongOptions(in: arguments) == [
                "s3://b", "/mnt", "-o", "cache-size=1G", "-o", "ro", "-o", "allow_other", "-o", #"header=X: a\,b"#,
                "-o",
                "ttl=1", "-f", "--foreground", "--", "--ro",
            ])
        for (option, base) in [("callback-var=a=b", "callback-url"), ("client-key=/k", "client-cert")] {
            #expect(throws: SettingsError.missingBase(name: String(option.prefix { $0 != "=" }), base: base)) {
                try MountSettings(optionLists: [option], environment: [:])
            }
        }
        #expect(throws: SettingsError.missingValue(name: "--ttl", placeholder: "time")) {
            try MountSettings.replacingLongOptions(in: ["--ttl"])
        }
        #expect(throws: SettingsError.unknown(name: "colour", nearest: nil)) {
            try MountSettings.replacingLongOptions(in: ["--colour", "blue"])
        }
    }

    struct Mistake: Sendable, CustomTestStringConvertible {
        let list: String
        let message: String
        var testDescription: String { list }
    }

    static let mistakes = [
        Mistake(list: "colour=blue", message: #"there is no option colour; "pailfs help mount" lists the options"#),
        Mistake(list: "endpint=http://a", message: "there is no option endpint; did you mean endpoint?"),
        Mistake(list: "cachesize=1", message: "there is no option cachesize; did you mean cache-size?"),
        Mistake(
            list: "ttl=soon",
            message: #"the option ttl cannot be "soon"; write a time such as 90, 30s or 5m, from 0s to 365d"#),
        Mistake(list: "ttl", message: "the option ttl needs a value; write ttl=time"),
        Mistake(list: "region=", message: "the option region needs a value; write region=name"),
        Mistake(
            list: "cache-size=10XB",
            message:
                #"the option cache-size cannot be "10XB"; write a size such as 512MiB or 2G, from 64MiB to 1PiB"#),
        Mistake(
            list: "part-size=1K",
            message: #"the option part-size cannot be "1K"; write a size such as 512MiB or 2G, from 100KiB to 5GiB"#),
        Mistake(
            list: "umask=089",
            message: #"the option umask cannot be "089"; write permission bits in octal, such as 640"#),
        Mistake(
            list: "endpoint=127.0.0.1:9",
            message: #"the option endpoint cannot be "127.0.0.1:9"; write http://host:port or https://host:port"#),
        Mistake(
            list: "endpoint=http://me:secret@host",
            message: #"the option endpoint cannot be "…@host"; write http://host:port or https://host:port"#),
        Mistake(list: "attrs=all", message: #"the option attrs cannot be "all"; write listing or exact"#),
        Mistake(list: "uploads=0", message: #"the option uploads cannot be "0"; write a number from 1 to 256"#),
        Mistake(list: "uid=-1", message: #"the option uid cannot be "-1"; write a number from 0 to 4294967294"#),
        Mistake(list: "ro=maybe", message: #"the option ro cannot be "maybe"; write yes or no, or the name alone"#),
        Mistake(
            list: "header=nothing",
            message: #"the option header cannot be "nothing"; write a header such as 'X-Name: value'"#),
    ]

    @Test func onlyLiveOptionsChangeAndAllOrNoneOfAList() throws {
        var settings = try MountSettings(optionLists: ["region=here"], environment: [:])
        try settings.change("ttl=5,log_level=debug")
        #expect(settings.ttl == .seconds(5) && settings.logLevel == .debug && settings.region == "here")
        #expect(throws: SettingsError.notLive(name: "region")) { try settings.change("ttl=9,region=there") }
        #expect(throws: SettingsError.self) { try settings.change("ttl=9,uploads=none") }
        #expect(settings.ttl == .seconds(5))
    }

    /// The length of an object is not known when its upload in parts begins.
    @Test func partsAreNotSmallerThanTheSmallestObjectOfTheClass() throws {
        var settings = try MountSettings(optionLists: ["storage-class-min=2MiB"], environment: [:])
        try settings.requireConsistent()
        try settings.change("part-size=2MiB")
        #expect(throws: SettingsError.self) { try settings.change("part-size=1MiB") }
        #expect(settings.partSize == 2 << 20)
        #expect(throws: SettingsError.self) {
            try MountSettings(optionLists: ["storage-class-min=9MiB"], environment: [:]).requireConsistent()
        }
    }

    @Test func figuresAreServedOnThisMachineOnlyUnlessOthersAreNamed() throws {
        for (text, shown) in [
            ("127.0.0.1:9464", "127.0.0.1:9464"), ("127.1.2.3:1", "127.1.2.3:1"), ("[::1]:9464", "[::1]:9464"),
            ("localhost:80", "127.0.0.1:80"), ("/run/x", "/run/x"), ("./x", "./x"), ("all:9464", "all:9464"),
        ] {
            let settings = try MountSettings(optionLists: ["metrics=\(text)"], environment: [:])
            #expect(settings.metrics?.description == shown)
        }
        for text in [
            "0.0.0.0:9464", "10.0.0.1:9464", "9464", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.01:9",
            "127.0.0:1", "all", "all:0", "host:9464", "[::]:1", "/run/",
        ] {
            #expect(throws: SettingsError.self, "\(text)") {
                try MountSettings(optionLists: ["metrics=\(text)"], environment: [:])
            }
        }
    }

    @Test(arguments: mistakes) func mistakesNameOptionValueAndRemedy(_ mistake: Mistake) {
        let error = #expect(throws: SettingsError.self) {
            try MountSettings(optionLists: [mistake.list], environment: [:])
        }
        #expect(error?.description == mistake.message)
    }
}
