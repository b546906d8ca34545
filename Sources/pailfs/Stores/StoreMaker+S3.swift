import ObjectStorage
import Providers
import Settings

extension StoreMaker {
    /// Amazon S3, and services with its protocol.
    func s3() throws(ObjectStoreError) -> Provider {
        let sources = try request.s3Credentials()
        let endpoint = endpoint(sources.endpoint)
        var profile = FamilyProfile.s3(endpoint: endpoint)
        if probes { profile.capabilities.sendsEveryCondition() }
        profile.namesRegionOfNewBuckets = true
        var provider = try family(
            profile, credentials(), endpoint: endpoint,
            region: settings.region ?? sources.region, addressing: sources.addressing)
        provider.bucketNames.allowsDots = true
        return provider
    }

    /// A member of the S3-shaped family, with the mount's options.
    func family(
        _ profile: FamilyProfile, _ credentials: any CredentialsProvider, endpoint: String?, region: String?,
        addressing: FamilyProfile.Addressing? = nil
    ) throws(ObjectStoreError) -> Provider {
        let key = try customerKey()
        let open: AccountStore.Opener = { [self] (entry) throws(ObjectStoreError) in
            var family = FamilyStore.Settings(bucket: entry.name, profile)
            // A bucket for which the account's listing has another endpoint is used there.
            family.endpoint = settings.endpoint == nil ? entry.endpoint ?? endpoint : endpoint
            family.region = entry.region ?? region
            family.addressing = settings.pathStyle ? .path : addressing
            family.storageClass = NewObjectClass(settings.storageClass, from: settings.smallestOfClass)
            family.requesterPays = settings.requesterPays
            family.callback = settings.uploadPolicy.callback
            if settings.acl == "keep" { family.keepsACL = true } else { family.acl = settings.acl }
            family.encryption = settings.encryption
            family.encryptionKey = settings.encryptionKey
            family.encryptionContext = settings.encryptionContext
            family.customerKey = key
            family.trafficLimit = settings.trafficLimit
            family.verifiesChecksums = settings.checksums == .verify
            family.followsRedirects = settings.redirects == .follow
            family.headers = settings.headers.map { ($0.name, $0.value) }
            family.onQuirk = onQuirk
            return try FamilyStore(family, credentials: credentials, engine: engine, time: time)
        }
        var service = FamilyStore.Settings(bucket: nil, profile)
        (service.endpoint, service.region) = (endpoint, region)
        service.headers = settings.headers.map { ($0.name, $0.value) }
        let directory = try FamilyDirectory(service, credentials: credentials, engine: engine, time: time)
        return Provider(capabilities: profile.capabilities, directory: directory, open: open)
    }
}
