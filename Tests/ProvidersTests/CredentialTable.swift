import ObjectStorage
import Testing

/// One way in which the users of a cloud keep their credentials: what the provider's own SDK makes of it, and what a mount does.
struct CredentialRow: Sendable, CustomTestStringConvertible {
    enum Outcome: Sendable, Equatable {
        /// Requests are signed with this key ID.
        case key(String)
        /// An error with these words, the remedy among them.
        case refused(String)
        case anonymous
    }

    let kind: String
    let store: BucketURL.Scheme
    /// botocore 1.44, alibabacloud_credentials 1.0, tccli 3.1 and tencentcloud-sdk-python-common 3.1, openstacksdk 4.22.
    let sdk: String
    let mount: Outcome
    var environment: [String: String] = [:]
    var files: [String: String] = [:]
    var profile: String?

    var testDescription: String { "\(store.rawValue): \(kind)" }

    init(
        _ store: BucketURL.Scheme, _ kind: String, sdk: String, mount: Outcome, _ environment: [String: String] = [:],
        files: [String: String] = [:], profile: String? = nil
    ) {
        (self.kind, self.store, self.sdk, self.mount) = (kind, store, sdk, mount)
        (self.environment, self.files, self.profile) = (environment, files, profile)
    }

    static let all = amazon + amazonErrors + alibaba + tencent + qiniu + openStack

    // MARK: Amazon

    private static func aws(_ config: String, _ credentials: String = "") -> [String: String] {
        ["/h/.aws/config": config, "/h/.aws/credentials": credentials]
    }

    private static let base = "[base]\naws_access_key_id = BASE\naws_secret_access_key = s\n"
    /// Named by the SHA-1 of `corp`.
    private static let tokens = [
        "/h/.aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json":
            #"{"accessToken": "SSO-TOKEN", "expiresAt": "2030-01-01T00:00:00Z"}"#
    ]

    static let amazon: [CredentialRow] = [
        CredentialRow(
            .s3, "a role with source_profile", sdk: "assumes it with the source's keys", mount: .key("ROLE-BY-BASE"),
            files: aws("[profile r]\nrole_arn = arn:r\nsource_profile = base\n", base), profile: "r"),
        CredentialRow(
            .s3, "a role of a role", sdk: "assumes one after the other", mount: .key("ROLE-BY-ROLE-BY-BASE"),
            files: aws(
                "[profile r]\nrole_arn = arn:r\nsource_profile = q\n[profile q]\nrole_arn = q\nsource_profile = base\n",
                base), profile: "r"),
        CredentialRow(
            .s3, "a role whose source is itself", sdk: "assumes it with the profile's keys",
            mount: .key("ROLE-BY-SELF"),
            files: aws(
                "[default]\nrole_arn = r\nsource_profile = default\naws_access_key_id = SELF\naws_secret_access_key = s\n"
            )),
        CredentialRow(
            .s3, "credential_source = Environment", sdk: "assumes it with the variables", mount: .key("ROLE-BY-ENV"),
            ["AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s"],
            files: aws("[profile r]\nrole_arn = r\ncredential_source = Environment\n"), profile: "r"),
        CredentialRow(
            .s3, "credential_source = Ec2InstanceMetadata", sdk: "assumes it with the machine's role",
            mount: .key("ROLE-BY-MACHINE"),
            files: aws("[profile r]\nrole_arn = r\ncredential_source = Ec2InstanceMetadata\n"), profile: "r"),
        CredentialRow(
            .s3, "credential_source = EcsContainer", sdk: "assumes it with the container's",
            mount: .key("ROLE-BY-CONTAINER"), ["AWS_CONTAINER_CREDENTIALS_FULL_URI": "SERVICE/container"],
            files: aws("[profile r]\nrole_arn = r\ncredential_source = EcsContainer\n"), profile: "r"),
        CredentialRow(
            .s3, "a web identity of the profile", sdk: "exchanges its token", mount: .key("ROLE-BY-WEB"),
            files: aws("[profile r]\nrole_arn = r\nweb_identity_token_file = /jwt\n").merging(["/jwt": "t"]) { $1 },
            profile: "r"),
        CredentialRow(
            .s3, "a program", sdk: "runs it without a shell", mount: .key("PROGRAM"),
            files: aws(
                "[default]\ncredential_process = /bin/printf '%s' '{\"Version\": 1, \"AccessKeyId\": \"PROGRAM\", "
                    + "\"SecretAccessKey\": \"s\", \"SessionToken\": \"t\", \"Expiration\": \"2030-01-01T00:00:00Z\"}'\n"
            )),
        CredentialRow(
            .s3, "sso_session", sdk: "asks the portal with the token of aws sso login", mount: .key("SSO"),
            files: aws(
                "[profile r]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = Read\n"
                    + "[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://start\n"
            ).merging(tokens) { $1 }, profile: "r"),
        CredentialRow(
            .s3, "keys before a program, and a program before the other file's keys", sdk: "the same order",
            mount: .key("BASE"), files: aws("[profile base]\ncredential_process = /bin/false\n", base), profile: "base"),
        CredentialRow(
            .s3, "an indented file", sdk: "reads it (configparser)", mount: .key("IN"),
            files: aws("", "[default]\n    aws_access_key_id = IN\n    aws_secret_access_key = s\n")),
        CredentialRow(
            .s3, "[profile default]", sdk: "reads it", mount: .key("DEF"),
            files: aws(
                "[default]\naws_access_key_id = NO\naws_secret_access_key = s\n"
                    + "[profile default]\naws_access_key_id = DEF\naws_secret_access_key = s\n")),
        CredentialRow(
            .s3, "a machine that refuses tokens", sdk: "asks version 1", mount: .key("MACHINE"),
            ["AWS_EC2_METADATA_SERVICE_ENDPOINT": "SERVICE/v1"]),
        CredentialRow(
            .s3, "version 1 disabled", sdk: "takes no machine's role", mount: .anonymous,
            ["AWS_EC2_METADATA_SERVICE_ENDPOINT": "SERVICE/v1", "AWS_EC2_METADATA_V1_DISABLED": "true"]),
    ]

    static let amazonErrors: [CredentialRow] = [
        CredentialRow(
            .s3, "a profile that is nowhere", sdk: "ProfileNotFound", mount: .refused("the profile gone is not in"),
            profile: "gone"),
        CredentialRow(
            .s3, "half a pair in a file", sdk: "PartialCredentialsError", mount: .refused("write both"),
            files: aws("", "[default]\naws_access_key_id = H\n")),
        CredentialRow(
            .s3, "a role without a source", sdk: "PartialCredentialsError",
            mount: .refused("without source_profile or credential_source"),
            files: aws("[default]\nrole_arn = r\n")),
        CredentialRow(
            .s3, "a source that is nowhere", sdk: "InvalidConfigError", mount: .refused("the profile x is not in"),
            files: aws("[default]\nrole_arn = r\nsource_profile = x\n")),
        CredentialRow(
            .s3, "sources in a circle", sdk: "InfiniteLoopConfigError", mount: .refused("are each other's source"),
            files: aws(
                "[profile a]\nrole_arn = r\nsource_profile = b\n[profile b]\nrole_arn = r\nsource_profile = a\n"),
            profile: "a"),
        CredentialRow(
            .s3, "a role with a second factor", sdk: "asks for the code", mount: .refused("use a role without it"),
            files: aws("[default]\nrole_arn = r\nsource_profile = base\nmfa_serial = m\n", base)),
        CredentialRow(
            .s3, "a program that fails", sdk: "CredentialRetrievalError",
            mount: .refused("ended with status 3: no key"),
            files: aws("[default]\ncredential_process = /bin/sh -c 'echo no key >&2; exit 3'\n")),
        CredentialRow(
            .s3, "a program that is not there", sdk: "FileNotFoundError", mount: .refused("cannot be started"),
            files: aws("[default]\ncredential_process = /none/such\n")),
        CredentialRow(
            .s3, "a program that prints something else", sdk: "CredentialRetrievalError",
            mount: .refused("does not print version 1"), files: aws("[default]\ncredential_process = /bin/echo x\n")),
        CredentialRow(
            .s3, "a sign-on that has ended", sdk: "UnauthorizedSSOTokenError", mount: .refused("run aws sso login"),
            files: aws(
                "[default]\nsso_start_url = https://none\nsso_region = r\nsso_account_id = 1\nsso_role_name = Read\n")),
        CredentialRow(
            .s3, "aws login", sdk: "needs botocore[crt]", mount: .refused("aws configure export-credentials"),
            files: aws("[default]\nlogin_session = arn\n")),
        CredentialRow(
            .s3, "a token file that is not there", sdk: "FileNotFoundError", mount: .refused("token file /gone"),
            ["AWS_WEB_IDENTITY_TOKEN_FILE": "/gone", "AWS_ROLE_ARN": "r"]),
    ]

    // MARK: Alibaba Cloud

    private static func aliyun(_ members: String, _ more: String = "") -> [String: String] {
        ["/h/.aliyun/config.json": "{\"current\": \"p\", \"profiles\": [{\"name\": \"p\", \(members)}\(more)]}"]
    }

    private static let pair = #""access_key_id": "AK", "access_key_secret": "s""#

    static let alibaba: [CredentialRow] = [
        CredentialRow(.oss, "AK", sdk: "uses the pair", mount: .key("AK"), files: aliyun(#""mode": "AK", "# + pair)),
        CredentialRow(
            .oss, "StsToken", sdk: "uses the pair and the token", mount: .key("AK"),
            files: aliyun(#""mode": "StsToken", "sts_token": "t", "# + pair)),
        CredentialRow(
            .oss, "RamRoleArn", sdk: "assumes the role", mount: .key("ROLE-BY-AK"),
            files: aliyun(#""mode": "RamRoleArn", "ram_role_arn": "r", "ram_session_name": "s", "# + pair)),
        CredentialRow(
            .oss, "ChainableRamRoleArn", sdk: "assumes it with source_profile", mount: .key("ROLE-BY-AK"),
            files: aliyun(
                #""mode": "ChainableRamRoleArn", "ram_role_arn": "r", "source_profile": "q""#,
                ", {\"name\": \"q\", \"mode\": \"AK\", \(pair)}")),
        CredentialRow(
            .oss, "EcsRamRole", sdk: "asks the machine", mount: .key("MACHINE"),
            files: aliyun(#""mode": "EcsRamRole", "ram_role_name": "role""#)),
        CredentialRow(
            .oss, "OIDC", sdk: "exchanges the token", mount: .key("ROLE-BY-WEB"),
            files: aliyun(
                #""mode": "OIDC", "ram_role_arn": "r", "oidc_provider_arn": "p", "oidc_token_file": "/jwt""#
            ).merging(["/jwt": "t"]) { $1 }),
        CredentialRow(
            .oss, "External", sdk: "runs the program", mount: .key("PROGRAM"),
            files: aliyun(
                #""mode": "External", "process_command": "/bin/printf '{\"access_key_id\": \"PROGRAM\", \"access_key_secret\": \"s\"}'""#
            )),
        CredentialRow(
            .oss, "CredentialsURI", sdk: "the CLI asks it, the SDK refuses the mode", mount: .key("URI"),
            files: aliyun(#""mode": "CredentialsURI", "credentials_uri": "SERVICE/uri""#)),
        CredentialRow(
            .oss, "CloudSSO", sdk: "asks with the token of aliyun configure", mount: .key("SSO"),
            files: aliyun(
                #""mode": "CloudSSO", "cloud_sso_sign_in_url": "SERVICE/login", "cloud_sso_account_id": "1", "#
                    + #""cloud_sso_access_config": "c", "access_token": "t", "cloud_sso_access_token_expire": 1900000000"#
            )),
        CredentialRow(
            .oss, "CloudSSO that has ended", sdk: "please re-login with cli", mount: .refused("run aliyun configure"),
            files: aliyun(
                #""mode": "CloudSSO", "access_token": "t", "cloud_sso_access_token_expire": 1"#)),
        CredentialRow(
            .oss, "another mode", sdk: "unsupported profile mode", mount: .refused("has the mode OAuth"),
            files: aliyun(#""mode": "OAuth""#)),
        CredentialRow(
            .oss, "half a pair", sdk: "refuses an empty secret", mount: .refused("write both"),
            files: aliyun(#""mode": "AK", "access_key_id": "AK""#)),
        CredentialRow(
            .oss, "a file that is no JSON", sdk: "failed to parse", mount: .refused("correct or remove it"),
            files: ["/h/.aliyun/config.json": "{"]),
        CredentialRow(
            .oss, "a profile that is nowhere", sdk: "unable to get profile",
            mount: .refused("the profile gone is not in"),
            files: aliyun(#""mode": "AK", "# + pair), profile: "gone"),
        CredentialRow(
            .oss, "the SDKs' file of sections", sdk: "reads it", mount: .key("INI"),
            files: [
                "/h/.alibabacloud/credentials.ini":
                    "[default]\ntype = access_key # keys\naccess_key_id = INI\naccess_key_secret = s\n"
            ]),
        CredentialRow(
            .oss, "a role in the SDKs' file", sdk: "assumes it", mount: .key("ROLE-BY-INI"),
            ["ALIBABA_CLOUD_CREDENTIALS_FILE": "/c", "ALIBABA_CLOUD_PROFILE": "p"],
            files: [
                "/c": "[p]\ntype = ram_role_arn\naccess_key_id = INI\naccess_key_secret = s\nrole_arn = r\n"
            ]),
        CredentialRow(
            .oss, "ossutil's Anonymous", sdk: "ossutil signs nothing", mount: .anonymous,
            files: ["/h/.ossutilconfig": "[default]\nmode = Anonymous\n"]),
        CredentialRow(
            .oss, "another mode of ossutil", sdk: "unknown to it as well", mount: .refused("has the mode Other"),
            files: ["/h/.ossutilconfig": "[default]\nmode = Other\n"]),
    ]

    // MARK: Tencent Cloud

    static let tencent: [CredentialRow] = [
        CredentialRow(
            .cos, "tccli", sdk: "uses the pair", mount: .key("TC"),
            files: ["/h/.tccli/default.credential": #"{"secretId": "TC", "secretKey": "s"}"#]),
        CredentialRow(
            .cos, "a profile of tccli", sdk: "uses it", mount: .key("TC"), ["TCCLI_PROFILE": "p"],
            files: ["/h/.tccli/p.credential": #"{"secretId": "TC", "secretKey": "s", "token": "t"}"#]),
        CredentialRow(
            .cos, "a role of tccli", sdk: "assumes it", mount: .key("ROLE-BY-TC"),
            files: [
                "/h/.tccli/default.credential": #"{"secretId": "TC", "secretKey": "s", "role-arn": "r"}"#
            ]),
        CredentialRow(
            .cos, "tccli on a machine with a role", sdk: "asks the machine", mount: .key("MACHINE"),
            files: ["/h/.tccli/default.credential": #"{"type": "cvm-role"}"#]),
        CredentialRow(
            .cos, "a sign-on of tccli", sdk: "uses its pair until it ends", mount: .key("TC"),
            files: [
                "/h/.tccli/default.credential":
                    #"{"type": "oauth", "secretId": "TC", "secretKey": "s", "token": "t", "expiresAt": 1900000000}"#
            ]),
        CredentialRow(
            .cos, "a sign-on of tccli that has ended", sdk: "tccli renews it",
            mount: .refused("run any command of tccli"),
            files: [
                "/h/.tccli/default.credential":
                    #"{"type": "sso", "secretId": "TC", "secretKey": "s", "token": "t", "expiresAt": 1}"#
            ]),
        CredentialRow(
            .cos, "a pod of TKE", sdk: "exchanges its token", mount: .key("ROLE-BY-WEB"),
            [
                "TKE_REGION": "ap-x", "TKE_PROVIDER_ID": "p", "TKE_ROLE_ARN": "r",
                "TKE_WEB_IDENTITY_TOKEN_FILE": "/jwt",
            ], files: ["/jwt": "t"]),
        CredentialRow(
            .cos, "a profile that is nowhere", sdk: "profile not existed",
            mount: .refused("the profile gone is not in"),
            profile: "gone"),
        CredentialRow(
            .cos, "half a pair in coscmd's file", sdk: "coscmd stops", mount: .refused("write both"),
            files: ["/h/.cos.conf": "[common]\nsecret_id = x\n"]),
        CredentialRow(
            .cos, "half a pair in the SDKs' file", sdk: "takes the next source", mount: .refused("write both"),
            files: ["/h/.tencentcloud/credentials": "[default]\nsecret_id = x\n"]),
    ]

    // MARK: Qiniu

    static let qiniu: [CredentialRow] = [
        CredentialRow(
            .kodo, "the SDKs' file", sdk: "reads it", mount: .key("Q"),
            files: ["/h/.qiniu/config.toml": "[default]\naccess_key = \"Q\"\nsecret_key = \"s\"\n"]),
        CredentialRow(
            .kodo, "half a pair in the environment", sdk: "takes the next source",
            mount: .refused("set both, or neither"),
            ["QINIU_ACCESS_KEY": "Q"],
            files: ["/h/.qiniu/config.toml": "[default]\naccess_key = \"Q\"\nsecret_key = \"s\"\n"]),
        CredentialRow(
            .kodo, "a profile that is nowhere", sdk: "an error", mount: .refused("the profile gone is not in"),
            profile: "gone"),
    ]

    // MARK: OpenStack

    private static func clouds(_ text: String) -> [String: String] { ["/h/.config/openstack/clouds.yaml": text] }
    private static let flow = "{auth_url: 'SERVICE', username: U, password: p, project_name: P}"

    /// The key ID stands for the storage URL.
    static let openStack: [CredentialRow] = [
        CredentialRow(
            .swift, "clouds.yaml in brackets", sdk: "reads it (YAML)", mount: .key("SERVICE/one"),
            files: clouds("clouds: {c: {auth: \(flow),\n   region_name: One}}\n")),
        CredentialRow(
            .swift, "clouds.json", sdk: "reads it", mount: .key("SERVICE/one"),
            files: [
                "/h/.config/openstack/clouds.json":
                    "{\"clouds\": {\"c\": {\"auth\": {\"auth_url\": \"SERVICE\", \"username\": \"U\", "
                    + "\"password\": \"p\"}, \"region_name\": \"One\"}}}"
            ]),
        CredentialRow(
            .swift, "anchors", sdk: "reads them", mount: .key("SERVICE/one"), ["OS_CLOUD": "c"],
            files: clouds("x: &a\n  auth: \(flow)\nclouds:\n  c:\n    <<: *a\n    region_name: One\n  d: *a\n")),
        CredentialRow(
            .swift, "a list of regions", sdk: "takes the first", mount: .key("SERVICE/two"),
            files: clouds("clouds:\n  c:\n    auth: \(flow)\n    regions:\n    - Two\n    - name: One\n")),
        CredentialRow(
            .swift, "a region of the list with its own values", sdk: "takes them", mount: .key("SERVICE/own"),
            ["OS_REGION_NAME": "One"],
            files: clouds(
                "clouds:\n  c:\n    auth: \(flow)\n    regions:\n    - Two\n    - name: One\n      values:\n"
                    + "        object_store_endpoint_override: SERVICE/own\n")),
        CredentialRow(
            .swift, "an endpoint override", sdk: "asks there", mount: .key("SERVICE/own"),
            files: clouds("clouds:\n  c:\n    auth: \(flow)\n    object-store_endpoint_override: SERVICE/own\n")),
        CredentialRow(
            .swift, "a token", sdk: "exchanges it (v3token)", mount: .key("SERVICE/one"),
            files: clouds(
                "clouds:\n  c:\n    auth_type: v3token\n    auth: {auth_url: SERVICE, token: T, project_id: P}\n")),
        CredentialRow(
            .swift, "another region than the list has", sdk: "is not a valid region name",
            mount: .refused("no region X"),
            ["OS_REGION_NAME": "X"], files: clouds("clouds:\n  c:\n    auth: \(flow)\n    regions: [One, Two]\n")),
        CredentialRow(
            .swift, "a vendor's profile without auth_url", sdk: "knows some vendors", mount: .refused("write auth_url"),
            files: clouds("clouds:\n  c:\n    profile: ovh\n    auth: {username: U, password: p}\n")),
        CredentialRow(
            .swift, "a vendor's profile of clouds-public.yaml", sdk: "merges it", mount: .key("SERVICE/one"),
            files: clouds("clouds:\n  c:\n    profile: own\n    auth: {username: U, password: p}\n").merging([
                "/etc/openstack/clouds-public.yaml": "public-clouds:\n  own:\n    auth:\n      auth_url: SERVICE\n"
            ]) { $1 }),
        CredentialRow(
            .swift, "an auth_type of another kind", sdk: "loads the plugin", mount: .refused("auth_type v3kerberos"),
            files: clouds("clouds:\n  c:\n    auth_type: v3kerberos\n    auth: \(flow)\n")),
        CredentialRow(
            .swift, "OS_CLIENT_CONFIG_FILE that is nowhere", sdk: "takes the next file",
            mount: .refused("cannot be read; correct it"), ["OS_CLIENT_CONFIG_FILE": "/gone"],
            files: clouds("clouds:\n  c:\n    auth: \(flow)\n")),
        CredentialRow(
            .swift, "a profile that is nowhere", sdk: "Cloud gone was not found",
            mount: .refused("the profile gone is neither"), profile: "gone"),
    ]
}
