import ObjectStorage
import Settings
import Testing

/// Lines of fstab(5) for other programs.
struct ForeignOptionTests {
    @Test func namesOfTheSameMeaningAreTaken() throws {
        let settings = try MountSettings(
            optionLists: [
                "_netdev,nofail,x-systemd.automount,allow_root,uid=1000,gid=1000,umask=022,url=https://s3.example",
                "passwd_file=/etc/passwd-s3fs,use_cache=/var/cache/s3fs,use_path_request_style,default_acl=private",
                "args2env,vfs_cache_mode=full,dir_cache_time=5m,big_writes,auto_cache,negative_metadata_ttl=3",
                "requester_pays,cold_min_size=131072",
            ], environment: [:])
        #expect(settings.endpoint == "https://s3.example" && settings.pathStyle && settings.acl == "private")
        #expect(settings.credentialsFile == "/etc/passwd-s3fs" && settings.cacheDirectory == "/var/cache/s3fs")
        #expect(settings.ttl == .seconds(300) && settings.negativeTTL == .seconds(3))
        #expect(settings.requesterPays && settings.smallestOfClass == 128 << 10)
        #expect(settings.admitsOthers && settings.kernelFlags == ["allow_root"])
    }

    @Test(arguments: [
        ("vfs_cache_max_size=10G", "vfs_cache_max_size", "cache-size=SIZE"),
        ("vfs-cache-mode=off", "vfs-cache-mode=off", "stages written files"),
        ("multipart_size=64", "multipart_size", "part-size=SIZE"), ("iam_role=auto", "iam_role", "leave it out"),
        ("max_read=131072", "max_read", "leave it out"), ("direct_io", "direct_io", "leave it out"),
        ("bwlimit=1M", "bwlimit", "upload-limit=RATE"), ("config=/etc/rclone.conf", "config", "PAILFS_CONFIG"),
        ("dbglevel=info", "dbglevel", "log-level=debug"), ("fsname=x", "fsname", "leave it out"),
        ("no_check_certificate", "no_check_certificate", "ca-file=FILE"),
        ("ssl_client_cert=/c:PEM:/k", "ssl_client_cert", "client-cert=FILE"),
        ("ahbe_conf=/etc/ahbe", "ahbe_conf", "header-for="),
        ("allow_delete=false", "allow_delete=false", "in any case"),
        ("implicit_dirs=no", "implicit_dirs=no", "in any case"),
    ])
    func othersAreRefusedWithTheRemedy(_ list: String, _ name: String, _ remedy: String) throws {
        let error = #expect(throws: SettingsError.self) {
            try MountSettings(optionLists: [list], environment: [:])
        }
        let message = try #require(error?.description)
        #expect(
            message.hasPrefix("the option \(name) is another program's; ") && message.contains(remedy), "\(message)")
    }

    @Test func aRegionInThePlaceOfAnEndpointIsNamed() throws {
        let error = #expect(throws: SettingsError.self) {
            try MountSettings(optionLists: ["endpoint=eu-west-1"], environment: [:])
        }
        #expect(error?.description.contains("region=eu-west-1") == true, "\(String(describing: error))")
    }

    @Test func allowRootCanBeTakenBack() throws {
        let settings = try MountSettings(optionLists: ["allow_root,allow_root=no"], environment: [:])
        #expect(settings.kernelFlags.isEmpty && !settings.admitsOthers)
    }

    @Test func filtersKeepTheirOrder() throws {
        let settings = try MountSettings(optionLists: ["include=a,exclude=*,max-size=5M"], environment: [:])
        #expect(settings.filters.map(\.isIncluded) == [true, false] && settings.largestFile == 5 << 20)
        #expect(throws: SettingsError.self) { try MountSettings(optionLists: ["exclude=[a"], environment: [:]) }
    }
}
