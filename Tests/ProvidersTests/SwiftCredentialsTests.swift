import HTTP
import ObjectStorage
import Providers
import Testing

/// Where Swift's and CSSP's users say who they are (documentation of python-openstackclient and of the CSSP SDKs).
@Suite struct SwiftCredentialsTests {
    private static func find(
        _ environment: [String: String], profile: String? = nil, endpoint: String? = nil, region: String? = nil,
        files: [String: String] = [:]
    ) throws -> SwiftCredentials.Found? {
        try SwiftCredentials(
            environment: environment, profile: profile, endpoint: endpoint, region: region, text: { files[$0] }
        ).find()
    }

    private static let password = [
        "OS_AUTH_URL": "https://keystone/v3", "OS_USERNAME": "demo", "OS_PASSWORD": "pw", "OS_PROJECT_NAME": "work",
        "OS_USER_DOMAIN_NAME": "users", "OS_PROJECT_DOMAIN_ID": "projects", "OS_REGION_NAME": "One",
        "OS_ENDPOINT_TYPE": "internalURL", "OS_CACERT": "/ca.pem",
    ]

    @Test func versionOneComesFromItsVariables() throws {
        let environment = ["ST_AUTH": "http://h/auth/v1.0", "ST_USER": "a:b", "ST_KEY": "k"]
        let found = try #require(try Self.find(environment))
        guard case .tempAuth(let login) = found.login else { return #expect(Bool(false), "another login") }
        #expect(login.url == "http://h/auth/v1.0" && login.user == "a:b" && login.key.revealed == "k")
        #expect(try Self.find(["ST_USER": "a:b", "ST_KEY": "k"]) == nil)
        #expect(throws: ObjectStoreError.self) { try Self.find(["ST_AUTH": "http://h/auth/v1.0", "ST_USER": "a:b"]) }
        #expect(throws: ObjectStoreError.self) { try Self.find(environment.merging(["ST_AUTH_VERSION": "2"]) { $1 }) }
    }

    @Test func aPasswordComesFromTheEnvironment() throws {
        let found = try #require(try Self.find(Self.password))
        guard case .keystone(let login) = found.login, case .password(let user, let secret, let project) = login.method
        else { return #expect(Bool(false), "another login") }
        #expect(user == .init(name: "demo", domainName: "users") && secret.revealed == "pw")
        #expect(project == .init(name: "work", domainID: "projects", domainName: "users"))
        #expect(login.region == "One" && login.interface == "internal" && found.caFile == "/ca.pem")
    }

    @Test func tenantsAreProjects() throws {
        var environment = Self.password
        environment["OS_PROJECT_NAME"] = nil
        environment["OS_TENANT_ID"] = "t"
        guard case .keystone(let login)? = try Self.find(environment)?.login,
            case .password(_, _, let project) = login.method
        else { return #expect(Bool(false), "another login") }
        #expect(project?.id == "t")
    }

    @Test func anApplicationCredentialComesFromTheEnvironment() throws {
        let environment = [
            "OS_AUTH_URL": "https://keystone/v3", "OS_AUTH_TYPE": "v3applicationcredential",
            "OS_APPLICATION_CREDENTIAL_ID": "id", "OS_APPLICATION_CREDENTIAL_SECRET": "s",
        ]
        guard case .keystone(let login)? = try Self.find(environment)?.login,
            case .applicationCredential(let id, let secret) = login.method
        else { return #expect(Bool(false), "another login") }
        #expect(id == "id" && secret.revealed == "s")
    }

    @Test func aReadyTokenIsTaken() throws {
        let environment = ["OS_STORAGE_URL": "http://h/v1/A", "OS_AUTH_TOKEN": "t"]
        guard case .token(let token)? = try Self.find(environment)?.login else {
            return #expect(Bool(false), "another login")
        }
        #expect(token.storageURL == "http://h/v1/A" && token.token.revealed == "t")
    }

    @Test(arguments: ["OS_USERNAME", "OS_PASSWORD"]) func halfALoginNamesWhatIsMissing(name: String) {
        var environment = Self.password
        environment[name] = nil
        let error = #expect(throws: ObjectStoreError.self) { try Self.find(environment) }
        #expect(error?.message.contains("username") == true)
    }

    @Test func ourOwnPairNeedsAPlace() throws {
        let pair = ["PAILFS_ACCESS_KEY_ID": "a:b", "PAILFS_SECRET_ACCESS_KEY": "k"]
        #expect(throws: ObjectStoreError.self) { try Self.find(pair) }
        guard case .tempAuth(let login)? = try Self.find(pair, endpoint: "http://h/auth/v1.0")?.login else {
            return #expect(Bool(false), "another login")
        }
        #expect(login.user == "a:b")
    }

    private static let files = [
        "/home/u/.config/openstack/clouds.yaml": """
        # Clouds of the house
        clouds:
          dev:
            auth:
              auth_url: "https://dev/v3"   # the old one
              username: demo
              project_name: 'it''s'
              user_domain_name: Default
            regions:
            - One
            - name: Two
              values: {}
            region_name: Two
            interface: admin
            verify: true
          app:
            auth_type: v3applicationcredential
            auth: {}
        """,
        "/home/u/.config/openstack/secure.yaml": "clouds:\n  dev:\n    auth:\n      password: \"p#w\\\\\"\n",
        "/home/u/.config/rclone/rclone.conf": """
        [mine]
        type = swift
        user = demo
        key = pw
        auth = https://rc/v3
        tenant = work
        domain = Default
        region = R
        [other]
        type = s3
        """,
    ]

    @Test(arguments: ["profile", "OS_CLOUD"]) func aCloudComesWithItsSecrets(by way: String) throws {
        var environment = ["HOME": "/home/u"]
        if way == "OS_CLOUD" { environment[way] = "dev" }
        let found = try Self.find(environment, profile: way == "profile" ? "dev" : nil, files: Self.files)
        guard case .keystone(let login)? = found?.login,
            case .password(let user, let secret, let project) = login.method
        else { return #expect(Bool(false), "another login") }
        #expect(login.url == "https://dev/v3" && login.region == "Two" && login.interface == "admin")
        #expect(user == .init(name: "demo", domainName: "Default") && secret.revealed == "p#w\\")
        #expect(project?.name == "it's")
    }

    @Test func whatTheMountSaysGoesFirst() throws {
        let found = try Self.find(
            ["HOME": "/home/u"], profile: "dev", endpoint: "https://here/v3", region: "Three", files: Self.files)
        guard case .keystone(let login)? = found?.login else { return #expect(Bool(false), "another login") }
        #expect(login.url == "https://here/v3" && login.region == "Three")
    }

    @Test func aCloudThatIsNotThereIsNamed() {
        for (environment, profile) in [(["HOME": "/home/u", "OS_CLOUD": "prod"], nil), (["HOME": "/home/u"], "prod")] {
            let error = #expect(throws: ObjectStoreError.self) {
                try Self.find(environment, profile: profile, files: Self.files)
            }
            #expect(error?.message.contains("prod") == true)
        }
    }

    @Test func aRemoteOfRcloneIsALogin() throws {
        let found = try Self.find(["HOME": "/home/u"], profile: "mine", files: Self.files)
        guard case .keystone(let login)? = found?.login, case .password(let user, _, let project) = login.method else {
            return #expect(Bool(false), "another login")
        }
        #expect(login.url == "https://rc/v3" && login.region == "R")
        #expect(user.name == "demo" && project?.name == "work" && project?.domainName == "Default")
        #expect(throws: ObjectStoreError.self) {
            try Self.find(["HOME": "/home/u"], profile: "other", files: Self.files)
        }
    }

    @Test(arguments: [
        ("clouds:\n  a:\n    auth: *x\n", 3), ("clouds:\n\tb: c\n", 2), ("a: {b: c\nd: e\n", 1), ("a: b: c\n", 1),
        ("a: !tag b\n", 1), ("a: [b c, {d: e}\n  f]\n", 1), ("clouds:\n  a: \"b\n", 2),
        ("what is this\n", 1),
        ("a:\n    b: c\n  d: e\n", 3), ("- a\n", 1),
    ])
    func whatCannotBeReadNamesItsLine(text: String, line: Int) {
        let error = #expect(throws: CloudsFile.Malformed.self) { try CloudsFile(parsing: text) }
        #expect(error?.line == line)
    }

    // MARK: CSSP

    @Test func theContainersURLTellsTheAccounts() throws {
        let url = "http://acct.hf.openstorage.cn/photos"
        let source = CSSPCredentials(environment: ["CSSP_URL": url])
        #expect(try source.address(of: "photos", endpoint: nil).origin.description == "http://acct.hf.openstorage.cn")
        #expect(try source.address(of: "photos", endpoint: nil).basePath.isEmpty)
        #expect(
            try source.address(of: "photos", endpoint: "acct.bj.openstorage.cn/").origin.host
                == "acct.bj.openstorage.cn")
        #expect(throws: ObjectStoreError.self) { try source.address(of: "music", endpoint: nil) }
        #expect(throws: ObjectStoreError.self) { try CSSPCredentials(environment: [:]).address(of: "a", endpoint: nil) }
    }

    @Test func ourOwnPairGoesBeforeTheProviders() throws {
        let theirs = ["CSSP_ACCESS_KEY_ID": "A", "CSSP_ACCESS_KEY_SECRET": "B"]
        let ours = theirs.merging(["PAILFS_ACCESS_KEY_ID": "C", "PAILFS_SECRET_ACCESS_KEY": "D"]) { $1 }
        #expect(try CSSPCredentials(environment: theirs).find()?.credentials.accessKeyID == "A")
        #expect(try CSSPCredentials(environment: ours).find()?.credentials.accessKeyID == "C")
        let half = CSSPCredentials(environment: ["CSSP_ACCESS_KEY_ID": "A"])
        #expect(throws: ObjectStoreError.self) { try half.find() }
        #expect(throws: ObjectStoreError.self) { try CSSPCredentials(environment: theirs, profile: "p").find() }
    }
}
